// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// bounds are the upper bounds of the kernel's buckets in seconds: 1, 2, 5 × 10^n from a microsecond to ten seconds (network_bounds of
// bpf/include/network_series.h).
var bounds = []float64{
	1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3,
	1e-2, 2e-2, 5e-2, 1e-1, 2e-1, 5e-1, 1, 2, 5, 10,
}

// reportedBounds are the bounds that are exported of handshakes and round-trip times: one per decade, since every bucket is a line of a
// Prometheus page. All are in bounds.
var reportedBounds = []float64{1e-4, 1e-3, 1e-2, 1e-1}

// fold adds up the kernel's buckets between two reported bounds, which are some of bounds; none: count, sum, minimum and maximum are enough.
func fold(h *model.Histogram, reported []float64) {
	folded := make([]uint64, len(reported)+1)
	to := 0
	for i, n := range h.Buckets {
		for to < len(reported) && (i == len(bounds) || bounds[i] > reported[to]) {
			to++
		}
		folded[to] += n
	}
	h.Buckets, h.Bounds = folded, reported
}

// Metrics of the network.
var (
	ioMetric = &model.Descriptor{
		Name: "ebpf.network.io", Unit: "By", Instrument: model.Sum,
		Description: "Bytes that the process has sent or received on sockets.",
	}
	operationMetric = &model.Descriptor{
		Name: "ebpf.network.operation.duration", Unit: "s", Instrument: model.Distribution,
		Description: "Time that calls on sockets took, without waiting for data or connections to arrive; of connects the handshake.",
	}
	waitMetric = &model.Descriptor{
		Name: "ebpf.network.wait.duration", Unit: "s", Instrument: model.Distribution,
		Description: "Time that calls waited for data or connections to arrive.",
	}
	rttMetric = &model.Descriptor{
		Name: "ebpf.tcp.rtt", Unit: "s", Instrument: model.Distribution,
		Description: "Smoothed round-trip time of TCP connections, looked at while they are used.",
	}
	retransmitMetric = &model.Descriptor{
		Name: "ebpf.tcp.retransmits", Unit: "{packet}", Instrument: model.Sum,
		Description: "Segments that TCP has sent again.",
	}
	dropMetric = &model.Descriptor{
		Name: "ebpf.network.drops", Unit: "{packet}", Instrument: model.Sum,
		Description: "Packets that the kernel has dropped, by its own reason.",
	}
	resetMetric = &model.Descriptor{
		Name: "ebpf.tcp.resets", Unit: "{reset}", Instrument: model.Sum,
		Description: "Resets of TCP connections that were sent or received.",
	}
	failureMetric = &model.Descriptor{
		Name: "ebpf.tcp.connection.failures", Unit: "{connection}", Instrument: model.Sum,
		Description: "TCP connections that could not be opened.",
	}
	connectionMetric = &model.Descriptor{
		Name: "ebpf.network.connections", Unit: "{connection}", Instrument: model.UpDownSum,
		Description: "Sockets that are open.",
	}
)

// connects is the operation whose times are handshakes; those of other operations are exported without buckets.
const connects = int(bindings.NetworkNetworkOperationNETWORK_CONNECT)

// Attributes of single points.
var (
	received   = model.Text("network.io.direction", "receive")
	sent       = model.Text("network.io.direction", "transmit")
	operations = [...]model.Attribute{
		model.Text("ebpf.operation", "read"), model.Text("ebpf.operation", "write"), model.Text("ebpf.operation", "connect"),
		model.Text("ebpf.operation", "accept"), model.Text("ebpf.operation", "close"),
	}
	waits = [...]model.Attribute{operations[0], operations[3]}
	// stateNames are those of include/net/tcp_states.h.
	stateNames = [states]string{
		"", "established", "syn_sent", "syn_received", "fin_wait_1", "fin_wait_2", "time_wait", "closed", "close_wait",
		"last_ack", "listen", "closing", "syn_received", "", "", "",
	}
)

// builder makes the metrics of one process.
type builder struct {
	reasons     dropReasons
	exponential bool
	points      map[*model.Descriptor][]model.Point
}

func (b *builder) add(metric *model.Descriptor, f *flow, point model.Point, more ...model.Attribute) {
	point.Attributes = f.with(more)
	if metric.Instrument != model.Gauge {
		point.Start = f.start
	}
	b.points[metric] = append(b.points[metric], point)
}

// count adds a counter that is not 0.
func (b *builder) count(metric *model.Descriptor, f *flow, n uint64, more ...model.Attribute) {
	if n > 0 {
		b.add(metric, f, model.Point{Int: int64(n)}, more...)
	}
}

// distribution adds a histogram that is not empty.
func (b *builder) distribution(metric *model.Descriptor, reported []float64, f *flow, h *histogram, more ...model.Attribute) {
	if b.exponential {
		if counted := value(h, powers); counted != nil {
			toExponential(counted)
			b.add(metric, f, model.Point{Histogram: counted}, more...)
		}
		return
	}
	if counted := value(h, bounds); counted != nil {
		fold(counted, reported)
		b.add(metric, f, model.Point{Histogram: counted}, more...)
	}
}

// flow adds all counts of a flow.
func (b *builder) flow(f *flow, t *totals) {
	b.count(ioMetric, f, t.received, received)
	b.count(ioMetric, f, t.sent, sent)
	for i, h := range t.times[operationTimes:waitTimes] {
		var reported []float64
		if i == connects {
			reported = reportedBounds
		}
		b.distribution(operationMetric, reported, f, h, operations[i])
	}
	for i, h := range t.times[waitTimes:rttTimes] {
		b.distribution(waitMetric, nil, f, h, waits[i])
	}
	b.distribution(rttMetric, reportedBounds, f, t.times[rttTimes])
	b.count(retransmitMetric, f, t.retransmits)
	b.count(resetMetric, f, t.resetsReceived, received)
	b.count(resetMetric, f, t.resetsSent, sent)
	for code, n := range t.drops {
		b.count(dropMetric, f, n, model.Text("ebpf.drop.reason", b.reasons.name(code)))
	}
	for code, n := range t.failures {
		b.count(failureMetric, f, n, model.Text("error.type", errorType(code)))
	}
	b.connections(f)
}

// connections adds the number of open sockets. A state that was exported once is exported for as long as the flow exists.
func (b *builder) connections(f *flow) {
	for state, name := range stateNames {
		if f.open[state] > 0 {
			f.exported |= 1 << state
		}
		if f.exported&(1<<state) == 0 {
			continue
		}
		var more []model.Attribute
		if name != "" {
			more = []model.Attribute{model.Text("network.connection.state", name)}
		}
		b.add(connectionMetric, f, model.Point{Int: int64(f.open[state])}, more...)
	}
}

// metrics returns the metrics sorted by name.
func (b *builder) metrics() []model.Metric {
	list := make([]model.Metric, 0, len(b.points))
	for descriptor, points := range b.points {
		list = append(list, model.Metric{Descriptor: descriptor, Points: points})
	}
	slices.SortFunc(list, func(x, y model.Metric) int {
		if x.Name < y.Name {
			return -1
		}
		return 1
	})
	return list
}
