// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// carrying is an exchange whose request has the field traceparent.
func carrying(role l7.Role, traceparent string, status int) *l7.Exchange {
	e := exchange(role, "/users/17", status, 700)
	e.HTTP.Query, e.HTTP.Host = []byte("name=smith"), []byte("shop.example:8080")
	e.HTTP.RequestFields = make([][]byte, len(Fields()))
	if traceparent != "" {
		e.HTTP.RequestFields[0] = []byte(traceparent)
	}
	return e
}

const (
	recorded    = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	notRecorded = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

// TestSpan holds all that is told of a request as a span, on both sides.
func TestSpan(t *testing.T) {
	whom := Whom{Peer: netip.MustParseAddrPort("192.0.2.1:80")}
	peer := []model.Attribute{model.Text("network.peer.address", "192.0.2.1")}
	redact := &Redaction{Query: true}
	common := map[string]any{
		"http.request.method": "GET", "http.response.status_code": int64(503), "error.type": "503",
		"url.scheme": "http", "url.path": "/users/17", "url.query": "name=?",
		"server.address": "shop.example", "server.port": int64(8080), "network.protocol.name": "http", "network.protocol.version": "1.1",
		"http.request.body.size": int64(0), "http.response.body.size": int64(900), "http.request.size": int64(100), "http.response.size": int64(1000),
		"network.peer.address": "192.0.2.1",
	}
	for role, want := range map[l7.Role]struct {
		kind   model.SpanKind
		remote bool
		own    map[string]any
	}{
		l7.RoleServer: {model.ServerSpan, true, map[string]any{"http.route": "/users/{id}"}},
		l7.RoleClient: {model.ClientSpan, false, map[string]any{"url.template": "/users/{id}", "url.full": "http://shop.example:8080/users/17?name=?"}},
	} {
		t.Run(role.String(), func(t *testing.T) {
			s := newRequest(whom, carrying(role, recorded, 503), "/users/{id}", redact, wall).Span(peer)
			require.Equal(t, "GET /users/{id}", s.Name)
			require.Equal(t, want.kind, s.Kind)
			require.Equal(t, wall(5e9), s.Start)
			require.Equal(t, wall(5.7e9), s.End)
			require.True(t, s.Failed)
			require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", hex.EncodeToString(s.TraceID[:]))
			require.Equal(t, "00f067aa0ba902b7", hex.EncodeToString(s.ParentID[:]))
			require.True(t, s.Sampled)
			require.Equal(t, want.remote, s.Remote)
			require.NotEqual(t, s.ParentID, s.SpanID)
			got := values(s.Attributes)
			require.Len(t, s.Attributes, len(got), "no key comes twice")
			for key, value := range want.own {
				require.Equal(t, value, got[key], key)
				delete(got, key)
			}
			require.Equal(t, common, got)
		})
	}
}

// TestSpanWithoutAContext holds that a request which carries none begins a trace of its own, and that ids are different ones.
func TestSpanWithoutAContext(t *testing.T) {
	r := newRequest(Whom{}, carrying(l7.RoleServer, "", 404), "", &Redaction{}, wall)
	one, other := r.Span(nil), r.Span(nil)
	require.Equal(t, "GET", one.Name)
	require.NotZero(t, one.TraceID)
	require.NotZero(t, one.SpanID)
	require.Zero(t, one.ParentID)
	require.False(t, one.Remote)
	require.True(t, one.Sampled)
	require.False(t, one.Failed, "for a server 404 is no failure")
	require.NotEqual(t, one.TraceID, other.TraceID)
	require.NotEqual(t, one.SpanID, other.SpanID)

	left := newRequest(Whom{}, carrying(l7.RoleServer, notRecorded, 200), "", &Redaction{}, wall).Span(nil)
	require.False(t, left.Sampled, "its caller records nothing")
}

// TestSpanNames holds the names of methods and routes that are not known.
func TestSpanNames(t *testing.T) {
	for want, c := range map[string]struct{ method, route string }{
		"POST /pay": {"POST", "/pay"}, "HTTP": {l7.OtherMethod, ""}, "HTTP /a": {l7.UnknownText, "/a"}, "DELETE": {"DELETE", ""},
	} {
		e := exchange(l7.RoleServer, "/", 200, 1)
		e.HTTP.Method = c.method
		require.Equal(t, want, newRequest(Whom{}, e, c.route, &Redaction{}, wall).Span(nil).Name)
	}
}

// TestCallSpans holds that calls by gRPC have the names of the conventions.
func TestCallSpans(t *testing.T) {
	for want, service := range map[string]string{"shop.Cart/Add": "shop.Cart", "grpc": l7.UnknownText} {
		e := exchange(l7.RoleServer, "/shop.Cart/Add", 200, 1)
		e.GRPC = &l7.GRPC{Service: []byte(service), Method: []byte("Add"), Status: "OK"}
		s := newRequest(Whom{}, e, "", &Redaction{}, wall).Span(nil)
		require.Equal(t, want, s.Name)
		require.Equal(t, "OK", values(s.Attributes)["rpc.response.status_code"])
	}
}

// TestSpanURLs holds that a URL is told where it is known whole, and not where its host is left out.
func TestSpanURLs(t *testing.T) {
	whom := Whom{Peer: netip.MustParseAddrPort("[2001:db8::1]:443"), TLS: true}
	for want, c := range map[string]struct {
		path, host string
		redact     Redaction
		whom       Whom
	}{
		"https://[2001:db8::1]:443/a": {"/a", "", Redaction{}, whom},
		"https://shop.example:443/":   {"/", "shop.example", Redaction{}, whom},
		"http://shop.example/a":       {"/a", "shop.example", Redaction{}, Whom{}},
		"http://[2001:db8::2]/a":      {"/a", "[2001:db8::2]", Redaction{}, Whom{}},
		"":                            {"/a", "shop.example", Redaction{Headers: []string{"host"}}, whom},
	} {
		e := exchange(l7.RoleClient, c.path, 200, 1)
		e.HTTP.Host = []byte(c.host)
		require.Equal(t, want, newRequest(c.whom, e, "", &c.redact, wall).url())
	}
	e := exchange(l7.RoleClient, "*", 200, 1)
	require.Empty(t, newRequest(whom, e, "", &Redaction{}, wall).url())
}

// TestSpansWait holds that each request waits as a span where they are asked for, and that what finds no room is counted.
func TestSpansWait(t *testing.T) {
	e := exchange(l7.RoleServer, "/a", 200, 1)
	size := newRequest(Whom{}, e, "", &Redaction{}, wall).bytes()
	j := NewJournal(JournalConfig{Which: AllRequests, Spans: true, Bytes: 3 * size})
	require.True(t, (&JournalConfig{Spans: true}).Tells())
	for range 2 {
		j.Add(Whom{}, e, "", wall)
	}
	require.Zero(t, j.Lost(AsLog))
	require.EqualValues(t, 1, j.Lost(AsSpan))
	require.Len(t, j.Take(AsSpan), 1)
	require.Empty(t, j.Take(AsSpan), "they are told once")
	require.Len(t, j.Take(AsLog), 2)
	require.Zero(t, j.Bytes())
}
