// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"net"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// Connection is what is known of the traffic between a service and one peer.
type Connection struct {
	Service, Role, Peer string
	// Protocol is that of the requests if it is known, else the transport.
	Protocol string
	// Open is the number of established connections in the last report.
	Open int64
	// Sent and Received are in bytes per second.
	Sent, Received float64
	// RTT is the median in seconds; Timed is false where there is none.
	RTT   float64
	Timed bool
	// Retransmits and Failures are packets and connections of the window.
	Retransmits, Failures int64
}

type connectionKey struct{ service, role, peer string }

// connectionRow has the differences of all series of a service and a peer.
type connectionRow struct {
	protocol, transport                        string
	sent, received, retransmits, failures, rtt slots
	// open are the last values of the gauges, by series.
	open map[string]point
}

// all are the differences of each kind.
func (r *connectionRow) all() []*slots {
	return []*slots{&r.sent, &r.received, &r.retransmits, &r.failures, &r.rtt}
}

// prune drops what ended before the window and reports whether nothing is left.
func (r *connectionRow) prune(begin time.Time) bool {
	left := 0
	for _, s := range r.all() {
		s.prune(begin)
		left += len(*s)
	}
	for id, p := range r.open {
		if !p.time.After(begin) {
			delete(r.open, id)
		}
	}
	return left+len(r.open) == 0
}

// peer names the other side: its service, else its address.
func peer(a pcommon.Map) string {
	if text(a, "otel.metric.overflow") != "" {
		return "(all others)"
	}
	if name := text(a, "service.peer.name"); name != "" {
		return name
	}
	address, port := text(a, "network.peer.address"), text(a, "network.peer.port")
	switch {
	case address != "" && port != "":
		return net.JoinHostPort(address, port)
	case address != "":
		return address
	case text(a, "ebpf.role") == "server":
		return "(clients)"
	}
	return "(" + cmp.Or(text(a, "network.transport"), "unknown") + ")"
}

// connection returns the row of a point, nil if there are too many.
func (o *Overview) connection(service string, a pcommon.Map) *connectionRow {
	key := connectionKey{service, text(a, "ebpf.role"), peer(a)}
	row := o.connections[key]
	if row == nil {
		if len(o.connections) >= maxRows {
			o.Excess++
			return nil
		}
		row = &connectionRow{open: map[string]point{}}
		o.connections[key] = row
	}
	row.protocol = cmp.Or(text(a, "network.protocol.name"), row.protocol)
	row.transport = cmp.Or(text(a, "network.transport"), row.transport)
	return row
}

// addSum counts a point of a sum.
func (o *Overview) addSum(id, service, metric string, monotonic bool, in pmetric.NumberDataPoint) {
	a := in.Attributes()
	p := point{start: in.StartTimestamp().AsTime(), time: in.Timestamp().AsTime(), count: in.IntValue()}
	if in.ValueType() == pmetric.NumberDataPointValueTypeDouble {
		p.count = int64(in.DoubleValue())
	}
	switch metric {
	case "ebpf.network.connections":
		if p.time.After(o.latest) {
			o.latest = p.time
		}
		if text(a, "network.connection.state") != "established" {
			return
		}
		if row := o.connection(service, a); row != nil {
			row.open[id] = p
		}
		return
	case "ebpf.network.io", "ebpf.tcp.retransmits", "ebpf.tcp.connection.failures":
	default:
		return
	}
	difference, ok := o.advance(id, p)
	if !ok || difference.count == 0 || !monotonic {
		return
	}
	row := o.connection(service, a)
	switch {
	case row == nil:
	case metric == "ebpf.tcp.retransmits":
		row.retransmits.add(difference)
	case metric == "ebpf.tcp.connection.failures":
		row.failures.add(difference)
	case text(a, "network.io.direction") == "receive":
		row.received.add(difference)
	default:
		row.sent.add(difference)
	}
}

// Connections returns all pairs of service and peer in the window, those with the most bytes first.
func (o *Overview) Connections() []Connection {
	var out []Connection
	for key, row := range o.connections {
		if row.prune(o.begin()) {
			continue
		}
		c := Connection{Service: key.service, Role: key.role, Peer: key.peer, Protocol: cmp.Or(row.protocol, row.transport)}
		rate := func(s slots) float64 {
			return float64(s.total().count) / o.covered().Seconds()
		}
		c.Sent, c.Received = rate(row.sent), rate(row.received)
		c.Retransmits, c.Failures = row.retransmits.total().count, row.failures.total().count
		c.RTT, c.Timed = row.rtt.total().quantile(0.5)
		newest := time.Time{}
		for _, p := range row.open {
			if p.time.After(newest) {
				newest = p.time
			}
		}
		for _, p := range row.open { // a series that ended has no point in the last report
			if !p.time.Before(newest) && !newest.Before(o.latest.Add(-seriesFresh)) {
				c.Open += p.count
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Connection) int {
		return cmp.Or(cmp.Compare(b.Sent+b.Received, a.Sent+a.Received), cmp.Compare(b.Open, a.Open), cmp.Compare(a.Service, b.Service),
			cmp.Compare(a.Role, b.Role), cmp.Compare(a.Peer, b.Peer))
	})
	return out
}

// seriesFresh is how old the last point of a gauge may be to count as present: twice the usual interval.
const seriesFresh = 10 * time.Second
