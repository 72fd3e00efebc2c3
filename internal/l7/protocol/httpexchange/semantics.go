// SPDX-License-Identifier: Apache-2.0

package httpexchange

import (
	"net"
	"strconv"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Name is the network.protocol.name of HTTP in any version.
const Name = "http"

// Semantics are those of HTTP requests.
var Semantics = &l7.Semantics{
	Protocol:         Name,
	Metrics:          [l7.Roles]*l7.Metrics{l7.RoleServer: newMetrics("server"), l7.RoleClient: newMetrics("client")},
	Dictionaries:     []*l7.Dictionary{routes},
	SeriesAttributes: seriesAttributes,
	LogAttributes: func(list []model.Attribute, r *l7.Record) []model.Attribute {
		return AppendConnection(AppendRequest(list, r, "http.route"), r)
	},
	Spans: &l7.Spans{
		Name: SpanName,
		Attributes: func(list []model.Attribute, r *l7.Record) []model.Attribute {
			return AppendURL(AppendConnection(AppendRequest(list, r, TargetKey(r)), r), r)
		},
		Same: Same,
	},
	SampleAttributes: SampleAttributes,
}

// newMetrics returns the metrics of one side. The duration and the sizes of bodies are those of the semantic conventions, the sizes of whole
// messages are this receiver's own.
func newMetrics(side string) *l7.Metrics {
	size := func(name, of string) *model.Descriptor {
		// No bounds: count, sum, minimum and maximum are enough, and every bucket is a line of a Prometheus page.
		return &model.Descriptor{Name: name, Unit: "By", Instrument: model.Distribution, Description: "Size of " + of + "."}
	}
	m := l7.NewMetrics("http."+side+".request.duration", "ebpf.http."+side+".requests.untimed", "{request}", "HTTP "+side+" requests")
	m.Values = [l7.MostValues]*model.Descriptor{ // in the order of [l7.Exchange.Sizes]
		size("http."+side+".request.body.size", "HTTP "+side+" request bodies"),
		size("http."+side+".response.body.size", "HTTP "+side+" response bodies"),
		size("ebpf.http."+side+".request.size", "whole HTTP "+side+" requests"),
		size("ebpf.http."+side+".response.size", "whole HTTP "+side+" responses"),
	}
	return m
}

// schemeOf returns the scheme of plaintext or TLS requests.
func schemeOf(tls bool) string {
	if tls {
		return "https"
	}
	return "http"
}

// throughTLS marks exchanges that were carried within TLS.
var throughTLS = model.Bool("ebpf.tls", true)

func seriesAttributes(list []model.Attribute, k *l7.Key) []model.Attribute {
	list = append(list, model.Text("http.request.method", k.Texts[methodText]), model.Text("url.scheme", schemeOf(k.TLS)))
	if k.TLS {
		list = append(list, throughTLS)
	}
	list = l7.AppendText(list, "http.route", k.Target)
	list = l7.AppendText(list, "network.protocol.version", k.Texts[versionText])
	if k.Number != 0 {
		list = append(list, model.Int("http.response.status_code", k.Number))
	}
	list = l7.AppendText(list, "error.type", k.ErrorType)
	return k.AppendServer(list)
}

// TargetKey is the attribute of a span that has the route.
func TargetKey(r *l7.Record) string {
	if r.Role == l7.RoleClient {
		return "url.template"
	}
	return "http.route"
}

// AppendRequest appends the attributes of a request and its status; target is the key of the route.
func AppendRequest(list []model.Attribute, r *l7.Record, target string) []model.Attribute {
	list = l7.AppendText(list, "http.request.method", r.Texts[recordMethod])
	list = l7.AppendText(list, "http.request.method_original", r.Texts[recordOriginal])
	list = l7.AppendText(list, target, r.Target)
	if status := r.Numbers[recordStatus]; status != 0 {
		list = append(list, model.Int("http.response.status_code", status))
	}
	return l7.AppendText(list, "error.type", r.ErrorType)
}

// sizeKeys are the attributes of [l7.Record.Sizes].
var sizeKeys = [4]string{"http.request.body.size", "http.response.body.size", "http.request.size", "http.response.size"}

// AppendConnection appends what follows the attributes of [AppendRequest].
func AppendConnection(list []model.Attribute, r *l7.Record) []model.Attribute {
	list = append(list, model.Text("network.protocol.name", Name))
	list = l7.AppendText(list, "network.protocol.version", r.Texts[recordVersion])
	list = append(list, model.Text("url.scheme", schemeOf(r.TLS)))
	if r.TLS {
		list = append(list, throughTLS)
	}
	list = l7.AppendText(list, "url.path", r.Texts[recordPath])
	list = l7.AppendText(list, "url.query", r.Texts[recordQuery])
	list = l7.AppendText(list, "user_agent.original", r.Texts[recordAgent])
	list = r.AppendServer(list, r.Texts[recordHost])
	for i, size := range r.Sizes {
		if size != l7.Unknown {
			list = append(list, model.Int(sizeKeys[i], size))
		}
	}
	return list
}

// AppendURL appends the URL of a client's request if it is known.
func AppendURL(list []model.Attribute, r *l7.Record) []model.Attribute {
	if r.Role != l7.RoleClient {
		return list
	}
	return l7.AppendText(list, "url.full", urlOf(r))
}

// urlOf returns the requested URL, "" if it is not completely known, or redacted.
func urlOf(r *l7.Record) string {
	host, port := r.ServerOf(r.Texts[recordHost])
	path, query := r.Texts[recordPath], r.Texts[recordQuery]
	if host == "" || host == redactedHeader || !strings.HasPrefix(path, "/") {
		return ""
	}
	if port != 0 {
		host = net.JoinHostPort(host, strconv.FormatInt(port, 10))
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	url := schemeOf(r.TLS) + "://" + host + path
	if query != "" {
		url += "?" + query
	}
	return url
}

// SpanName returns the method with the route, if known; the semantic conventions have one name for unknown methods.
func SpanName(r *l7.Record) string {
	name := r.Texts[recordMethod]
	if name == rfc9110.OtherMethod || name == l7.UnknownText {
		name = "HTTP"
	}
	if r.Target != "" {
		name += " " + r.Target
	}
	return name
}

// Same reports whether a client's request and a server's may be the same one.
func Same(client, server *l7.Record) bool {
	for _, text := range [...]int{recordMethod, recordPath, recordQuery} {
		if client.Texts[text] != server.Texts[text] {
			return false
		}
	}
	sent, received := server.Numbers[recordStatus], client.Numbers[recordStatus]
	return sent == 0 || received == 0 || sent == received
}
