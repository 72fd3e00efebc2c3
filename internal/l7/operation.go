// SPDX-License-Identifier: Apache-2.0

package l7

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// Operation is what an exchange asked for and what came of it. Each protocol has its own, and nothing outside the protocol's folder knows its
// fields. It is valid as long as its [Exchange].
type Operation interface {
	// Semantics returns what all operations of the same kind have in common; nil if the exchange is not exported.
	Semantics() *Semantics
	// Count completes the i-th series that the exchange counts in, and reports whether there is another one. An exchange that counts in
	// several series, such as one of a broker with many topics, has its duration in the first. Count allocates nothing in the common case.
	Count(i int, e *Exchange, c *Count) (more bool)
	// Failed reports whether the exchange is exported by itself as one that failed.
	Failed(e *Exchange) bool
	// StatusClass is the class of the response's status: 4 if the client is at fault, 5 if the server is, 0 if there is none.
	StatusClass() int
	// Record copies what is exported of the exchange by itself. Nothing that the redaction covers is copied.
	Record(e *Exchange, redact *Redaction, w *RecordWriter)
}

// Monitored is an [Operation] that the policies' monitors of requests evaluate.
type Monitored interface {
	Operation
	// Endpoint returns the path that rules of policies select requests by, and the status of the response, 0 if there is none.
	Endpoint() (path []byte, status int)
}

// Semantics is what all operations of one kind have in common: how they are exported. Values are shared and compared by pointer.
type Semantics struct {
	// Protocol is the network.protocol.name of metrics.
	Protocol string
	// Metrics are those of each role; nil: exchanges in that role are not exported.
	Metrics [Roles]*Metrics
	// Dictionaries bound the texts of series that come from the wire.
	Dictionaries []*Dictionary
	// SeriesAttributes appends the attributes of a series. Its role, protocol and peer are appended by the caller.
	SeriesAttributes func(list []model.Attribute, k *Key) []model.Attribute
	// LogAttributes appends the attributes of an event. The role, the duration and the peer are appended by the caller.
	LogAttributes func(list []model.Attribute, r *Record) []model.Attribute
	// Spans is nil if there are no spans of such exchanges.
	Spans *Spans
	// SampleAttributes appends what is exported of the content of a message; nil: there are no samples of such exchanges.
	SampleAttributes func(list []model.Attribute, s *Sample, redact *Redaction) []model.Attribute
}

// Spans describes how exchanges are exported as spans.
type Spans struct {
	Name func(r *Record) string
	// Attributes appends the attributes of a span. The peer is appended by the caller.
	Attributes func(list []model.Attribute, r *Record) []model.Attribute
	// Same reports whether a client's record and a server's may be the two sides of one exchange, as far as both are known.
	Same func(client, server *Record) bool
}

// Metrics are those that exchanges of one kind count in, in one role.
type Metrics struct {
	// Duration and Untimed together count each exchange once: the duration, or that it is not known. Both are nil if the series is about
	// a part of an exchange.
	Duration, Untimed *model.Descriptor
	// Values are histograms, or sums of whole numbers, of [Count.Values].
	Values [MostValues]*model.Descriptor
}

// DurationBounds are the bounds of histograms of durations in seconds that the semantic conventions advise.
var DurationBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// NewMetrics returns metrics with a duration and without values. The unit is that of untimed; which names what they count, for the
// descriptions.
func NewMetrics(duration, untimed, unit, which string) *Metrics {
	return &Metrics{
		Duration: &model.Descriptor{
			Name: duration, Unit: "s", Instrument: model.Distribution, Bounds: DurationBounds, Description: "Duration of " + which + ".",
		},
		Untimed: &model.Descriptor{
			Name: untimed, Unit: unit, Instrument: model.Sum,
			Description: "Number of " + which + " whose duration is not known, and which " + duration + " does not count.",
		},
	}
}

// Descriptors returns those of all metrics.
func (s *Semantics) Descriptors() (list []*model.Descriptor) {
	for _, m := range s.Metrics {
		if m == nil {
			continue
		}
		for _, d := range append([]*model.Descriptor{m.Duration, m.Untimed}, m.Values[:]...) {
			if d != nil {
				list = append(list, d)
			}
		}
	}
	return list
}
