// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"sort"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// protocolName is that of all requests that are told in this version.
const protocolName = "http"

// schemeOf is that of requests in the clear or through TLS.
func schemeOf(tls bool) string {
	if tls {
		return "https"
	}
	return "http"
}

// throughTLS marks what was carried within TLS.
var throughTLS = model.Bool("ebpf.tls", true)

var (
	// durationBounds are those that the conventions advise, in seconds.
	durationBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	// sizeBounds are powers of four, in bytes.
	sizeBounds = []float64{0, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864, 268435456, 1073741824}
)

// metricsOf are the metrics of one role: the duration, then the sizes in the order of series.sizes.
type metricsOf struct {
	duration *model.Descriptor
	sizes    [4]*model.Descriptor
}

// metrics by role.
var metrics = map[l7.Role]metricsOf{l7.RoleServer: newMetrics("server"), l7.RoleClient: newMetrics("client")}

// lookups is the metric of DNS.
var lookups = &model.Descriptor{
	Name: "dns.lookup.duration", Unit: "s", Instrument: model.Distribution, Bounds: durationBounds,
	Description: "Time that DNS lookups took.",
}

// calls are the metrics of gRPC, by role.
var calls = map[l7.Role]*model.Descriptor{l7.RoleServer: newCalls("server", "incoming"), l7.RoleClient: newCalls("client", "outgoing")}

func newCalls(side, which string) *model.Descriptor {
	return &model.Descriptor{
		Name: "rpc." + side + ".call.duration", Unit: "s", Instrument: model.Distribution, Bounds: durationBounds,
		Description: "Duration of " + which + " remote procedure calls.",
	}
}

// newMetrics are those of one side. The duration and the sizes of bodies are those of the conventions, the sizes of whole messages our own.
func newMetrics(side string) metricsOf {
	size := func(name, of string) *model.Descriptor {
		return &model.Descriptor{Name: name, Unit: "By", Instrument: model.Distribution, Bounds: sizeBounds, Description: "Size of " + of + "."}
	}
	return metricsOf{
		duration: &model.Descriptor{
			Name: "http." + side + ".request.duration", Unit: "s", Instrument: model.Distribution, Bounds: durationBounds,
			Description: "Duration of HTTP " + side + " requests.",
		},
		sizes: [4]*model.Descriptor{
			size("http."+side+".request.body.size", "HTTP "+side+" request bodies"),
			size("http."+side+".response.body.size", "HTTP "+side+" response bodies"),
			size("ebpf.http."+side+".request.size", "whole HTTP "+side+" requests"),
			size("ebpf.http."+side+".response.size", "whole HTTP "+side+" responses"),
		},
	}
}

// attributes are those of the conventions.
func (k *key) attributes() []model.Attribute {
	if k.overflow {
		return []model.Attribute{model.Bool("otel.metric.overflow", true)}
	}
	switch k.kind {
	case lookup:
		return k.lookupAttributes()
	case call:
		return k.callAttributes()
	}
	list := []model.Attribute{model.Text("http.request.method", k.method), model.Text("url.scheme", schemeOf(k.tls))}
	if k.tls {
		list = append(list, throughTLS)
	}
	if k.route != "" {
		list = append(list, model.Text("http.route", k.route))
	}
	if k.version != "" {
		list = append(list, model.Text("network.protocol.version", k.version))
	}
	if k.status != 0 {
		list = append(list, model.Int("http.response.status_code", int64(k.status)))
	}
	if k.errorType != "" {
		list = append(list, model.Text("error.type", k.errorType))
	}
	return k.appendServer(list)
}

// appendServer appends whom a client has asked: the host that it names, else where its connection leads to.
func (k *key) appendServer(list []model.Attribute) []model.Attribute {
	if k.asked.host != "" {
		list = append(list, model.Text("server.address", k.asked.host))
		if k.asked.port != 0 {
			list = append(list, model.Int("server.port", int64(k.asked.port)))
		}
		return list
	}
	if !k.server.IsValid() {
		return list
	}
	return append(list, model.Text("server.address", k.server.Addr().String()), model.Int("server.port", int64(k.server.Port())))
}

// rpcSystem names gRPC.
var rpcSystem = model.Text("rpc.system.name", "grpc")

func (k *key) callAttributes() []model.Attribute {
	list := []model.Attribute{rpcSystem, model.Text("rpc.method", k.name)}
	if k.tls {
		list = append(list, throughTLS)
	}
	if k.code != "" {
		list = append(list, model.Text("rpc.response.status_code", k.code))
	}
	if k.errorType != "" {
		list = append(list, model.Text("error.type", k.errorType))
	}
	return k.appendServer(list)
}

func (k *key) lookupAttributes() []model.Attribute {
	list := []model.Attribute{model.Text("dns.question.name", k.name)}
	if k.errorType != "" {
		list = append(list, model.Text("error.type", k.errorType))
	}
	return list
}

// metrics returns what the process is told of.
func (p *process) metrics(only l7.Role) []model.Metric {
	points := map[*model.Descriptor][]model.Point{}
	for k, s := range p.series {
		if only != l7.RoleUnknown && only != k.role {
			continue
		}
		switch k.kind {
		case lookup:
			s.duration.point(points, lookups, s)
			continue
		case call:
			s.duration.point(points, calls[k.role], s)
			continue
		}
		of := metrics[k.role]
		s.duration.point(points, of.duration, s)
		for i, descriptor := range of.sizes {
			s.sizes[i].point(points, descriptor, s)
		}
	}
	list := make([]model.Metric, 0, len(points))
	for descriptor, of := range points {
		list = append(list, model.Metric{Descriptor: descriptor, Points: of})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// distribution is a histogram that counts.
type distribution struct {
	buckets       []uint64
	count         uint64
	sum, min, max float64
}

// add counts a value; upper bounds are inclusive.
func (d *distribution) add(bounds []float64, v float64) {
	if d.buckets == nil {
		d.buckets = make([]uint64, len(bounds)+1)
		d.min, d.max = v, v
	}
	d.buckets[sort.SearchFloat64s(bounds, v)]++
	d.count++
	d.sum += v
	d.min, d.max = min(d.min, v), max(d.max, v)
}

// merge adds what another one with the same bounds has counted.
func (d *distribution) merge(o *distribution) {
	if o.count == 0 {
		return
	}
	if d.count == 0 {
		*d = *o
		return
	}
	for i, n := range o.buckets {
		d.buckets[i] += n
	}
	d.count += o.count
	d.sum += o.sum
	d.min, d.max = min(d.min, o.min), max(d.max, o.max)
}

// point adds the histogram to those of its metric, if it has counted.
func (d *distribution) point(points map[*model.Descriptor][]model.Point, descriptor *model.Descriptor, s *series) {
	if d.count == 0 {
		return
	}
	points[descriptor] = append(points[descriptor], model.Point{
		Attributes: s.attributes, Start: s.start,
		Histogram: &model.Histogram{Count: d.count, Sum: d.sum, Min: d.min, Max: d.max, Buckets: append([]uint64(nil), d.buckets...)},
	})
}

// Descriptors are those of all metrics of requests.
func Descriptors() []*model.Descriptor {
	list := []*model.Descriptor{lookups}
	for _, of := range calls {
		list = append(list, of)
	}
	for _, of := range metrics {
		list = append(append(list, of.duration), of.sizes[:]...)
	}
	return list
}
