// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpccall"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// carrying returns an exchange whose request has the field traceparent.
func carrying(role l7.Role, traceparent string, status int) *l7.Exchange {
	e := exchange(role, "/users/17", status, 700)
	h := httpexchange.Of(e)
	h.Query, h.Host = []byte("name=smith"), []byte("shop.example:8080")
	h.RequestFields = make([][]byte, len(httpexchange.Fields()))
	if traceparent != "" {
		h.RequestFields[0] = []byte(traceparent)
	}
	return e
}

const (
	recorded    = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	notRecorded = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
)

// TestSpan checks all that is exported of a request as a span, on both sides.
func TestSpan(t *testing.T) {
	conn := Connection{Peer: netip.MustParseAddrPort("192.0.2.1:80")}
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
			s := newRequest(conn, carrying(role, recorded, 503), "/users/{id}", redact, wall).Span(peer)
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

// TestSpanWithoutAContext checks that a request without a trace context begins a trace of its own, and that ids differ.
func TestSpanWithoutAContext(t *testing.T) {
	r := newRequest(Connection{}, carrying(l7.RoleServer, "", 404), "", &Redaction{}, wall)
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

	left := newRequest(Connection{}, carrying(l7.RoleServer, notRecorded, 200), "", &Redaction{}, wall).Span(nil)
	require.False(t, left.Sampled, "its caller records nothing")
}

// TestSpanNames checks the names of unknown methods and routes.
func TestSpanNames(t *testing.T) {
	for want, c := range map[string]struct{ method, route string }{
		"POST /pay": {"POST", "/pay"}, "HTTP": {rfc9110.OtherMethod, ""}, "HTTP /a": {l7.UnknownText, "/a"}, "DELETE": {"DELETE", ""},
	} {
		e := exchange(l7.RoleServer, "/", 200, 1)
		httpexchange.Of(e).Method = c.method
		require.Equal(t, want, newRequest(Connection{}, e, c.route, &Redaction{}, wall).Span(nil).Name)
	}
}

// TestCallSpans checks that gRPC calls have the names of the semantic conventions.
func TestCallSpans(t *testing.T) {
	for want, service := range map[string]string{"shop.Cart/Add": "shop.Cart", "grpc": l7.UnknownText} {
		e := exchange(l7.RoleServer, "/shop.Cart/Add", 200, 1)
		e.Operation = &grpccall.Call{Exchange: httpexchange.Of(e), Service: []byte(service), Name: []byte("Add"), Status: "OK"}
		s := newRequest(Connection{}, e, "", &Redaction{}, wall).Span(nil)
		require.Equal(t, want, s.Name)
		require.Equal(t, "OK", values(s.Attributes)["rpc.response.status_code"])
	}
}

// urlOf returns the URL of a request's span, "" if it has none.
func urlOf(r *Request) string {
	url, _ := values(r.Span(nil).Attributes)["url.full"].(string)
	return url
}

// TestSpanURLs checks that a URL is exported if it is completely known, and not if its host is redacted.
func TestSpanURLs(t *testing.T) {
	conn := Connection{Peer: netip.MustParseAddrPort("[2001:db8::1]:443"), TLS: true}
	for want, c := range map[string]struct {
		path, host string
		redact     Redaction
		conn       Connection
	}{
		"https://[2001:db8::1]:443/a": {"/a", "", Redaction{}, conn},
		"https://shop.example:443/":   {"/", "shop.example", Redaction{}, conn},
		"http://shop.example/a":       {"/a", "shop.example", Redaction{}, Connection{}},
		"http://[2001:db8::2]/a":      {"/a", "[2001:db8::2]", Redaction{}, Connection{}},
		"":                            {"/a", "shop.example", Redaction{Headers: []string{"host"}}, conn},
	} {
		e := exchange(l7.RoleClient, c.path, 200, 1)
		httpexchange.Of(e).Host = []byte(c.host)
		require.Equal(t, want, urlOf(newRequest(c.conn, e, "", &c.redact, wall)))
	}
	e := exchange(l7.RoleClient, "*", 200, 1)
	require.Empty(t, urlOf(newRequest(conn, e, "", &Redaction{}, wall)))
}

// TestSpansWait checks that each request waits as a span if these are configured, and that those that do not fit in the memory are counted.
func TestSpansWait(t *testing.T) {
	e := exchange(l7.RoleServer, "/a", 200, 1)
	size := newRequest(Connection{}, e, "", &Redaction{}, wall).bytes()
	j := NewJournal(JournalConfig{Which: AllRequests, Spans: true, Bytes: 3 * size})
	require.True(t, (&JournalConfig{Spans: true}).Enabled())
	for range 2 {
		j.Add(Connection{Subject: someone}, e, "", wall)
	}
	require.Zero(t, decided(j).Lost(AsLog))
	require.EqualValues(t, 1, decided(j).Lost(AsSpan))
	require.Len(t, j.Take(AsSpan), 1)
	require.Empty(t, j.Take(AsSpan), "they are exported once")
	require.Len(t, j.Take(AsLog), 2)
	require.Zero(t, j.Bytes())
}

// TestRedactedPath checks that values of parameters in a path are exported neither in the path itself nor within a URL.
func TestRedactedPath(t *testing.T) {
	e := exchange(l7.RoleClient, "/cart;jsessionid=SECRET/items", 200, 1)
	httpexchange.Of(e).Host, httpexchange.Of(e).Query = []byte("shop.example:8080"), []byte("a=SECRET")
	r := newRequest(Connection{}, e, "/cart/items", &Redaction{Query: true}, wall)
	require.Equal(t, "/cart;jsessionid=?/items", values(r.appendLog(nil))["url.path"])
	require.Equal(t, "http://shop.example:8080/cart;jsessionid=?/items?a=?", urlOf(r))
}
