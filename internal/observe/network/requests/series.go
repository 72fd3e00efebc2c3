// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/histogram"
)

// key identifies a series of a process.
type key struct {
	l7.Key
	peer Peer
}

// attributes returns the attributes of a series by the semantic conventions.
func (k *key) attributes() []model.Attribute {
	if k.Overflow {
		return []model.Attribute{model.Bool("otel.metric.overflow", true)}
	}
	list := k.Semantics.SeriesAttributes(nil, &k.Key)
	list = append(list, PeerRole(k.Role.String()), model.Text("network.protocol.name", k.Semantics.Protocol))
	return k.peer.Append(list)
}

// series holds what was counted for one key.
type series struct {
	of         *l7.Metrics
	attributes []model.Attribute
	start      time.Time
	idle       int // reports since it counted last
	// exported: it was exported before. ending: it will be exported once more and counts nothing any more.
	exported, ending bool
	// waited: its peer was unknown at the last report.
	waited   bool
	duration distribution
	untimed  uint64                      // exchanges without a known duration
	values   [l7.MostValues]distribution // of a sum, the count is the sum
}

// newSeries returns an empty series of a key that starts now, without attributes.
func (t *Totals) newSeries(k *key) *series {
	s := &series{of: k.Semantics.Metrics[k.Role], start: t.now()}
	if !t.exponential {
		return s
	}
	s.duration.exponential = &histogram.Exponential{}
	for i, of := range s.of.Values {
		if of != nil && of.Instrument == model.Distribution {
			s.values[i].exponential = &histogram.Exponential{}
		}
	}
	return s
}

// add counts an exchange.
func (s *series) add(e *l7.Exchange, c *l7.Count) {
	s.idle = 0
	if s.of.Duration != nil {
		if took, ok := Duration(e); ok {
			s.duration.add(s.of.Duration.Bounds, float64(took)/1e9)
		} else {
			s.untimed++
		}
	}
	for i, of := range s.of.Values {
		switch value := c.Values[i]; {
		case of == nil, value == l7.Unknown:
		case of.Instrument != model.Distribution:
			s.values[i].count += uint64(value)
		case of.Unit == "s":
			s.values[i].add(of.Bounds, float64(value)/1e9)
		default:
			s.values[i].add(of.Bounds, float64(value))
		}
	}
}

// merge adds the counts of another series with the same key.
func (s *series) merge(o *series) {
	if o.start.Before(s.start) {
		s.start = o.start
	}
	s.idle = min(s.idle, o.idle)
	s.duration.merge(&o.duration)
	s.untimed += o.untimed
	for i := range s.values {
		s.values[i].merge(&o.values[i])
	}
}

// requests returns the number of exchanges that the series has counted.
func (s *series) requests() uint64 { return s.duration.counted() + s.untimed }

// points adds the points of the series.
func (s *series) points(points map[*model.Descriptor][]model.Point) {
	s.duration.point(points, s.of.Duration, s)
	s.sum(points, s.of.Untimed, s.untimed)
	for i, of := range s.of.Values {
		switch {
		case of == nil:
		case of.Instrument == model.Distribution:
			s.values[i].point(points, of, s)
		default:
			s.sum(points, of, s.values[i].count)
		}
	}
}

// sum adds the point of a sum, if it has counted.
func (s *series) sum(points map[*model.Descriptor][]model.Point, of *model.Descriptor, n uint64) {
	if n > 0 {
		points[of] = append(points[of], model.Point{Attributes: s.attributes, Start: s.start, Int: int64(n)})
	}
}

// Duration returns how long an exchange took, in ns, until the last byte of its response, or until the request was given up without one. The
// duration is known if that was captured, or if the connection ended within the response: nothing came after its last byte then. If bytes of
// the response are missing, its end is later than what was captured, by an unknown time.
func Duration(e *l7.Exchange) (ns int64, ok bool) {
	took, ok := e.Duration()
	if !ok && e.Outcome == l7.Aborted && e.Request.First != 0 && e.Response.Known {
		took, ok = e.Response.Last-e.Request.First, true
	}
	return max(took, 0), ok
}
