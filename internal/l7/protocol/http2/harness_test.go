// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	xhttp2 "golang.org/x/net/http2"
	xhpack "golang.org/x/net/http2/hpack"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpccall"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http1"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http2"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
)

// Fields whose values the tests ask for.
var (
	requestFields  = []string{"Traceparent", "Cookie", "X-Request"}
	responseFields = []string{"content-type", "X-Of"}
)

// reported is an exchange as it was reported, copied.
type reported struct {
	Role                           string
	Request, Response              l7.Side
	Outcome                        l7.Outcome
	ErrorType                      string
	Method, Original, Target       string
	Scheme, Host, Path, Query      string
	Version                        string
	Status                         int
	Pushed                         bool
	RequestFields, ResponseFields  []string
	Service, RPC, RPCStatus        string
	RequestMessages, ResponseCount int64
}

const absent = "(absent)"

func copied(values [][]byte) (texts []string) {
	for _, v := range values {
		if v == nil {
			texts = append(texts, absent)
		} else {
			texts = append(texts, string(v))
		}
	}
	return texts
}

func reportOf(e *l7.Exchange) reported {
	h := httpexchange.Of(e)
	x := reported{
		Role: e.Role.String(), Request: e.Request, Response: e.Response, Outcome: e.Outcome, ErrorType: e.ErrorType,
		Method: h.Method, Original: string(h.OriginalMethod), Target: string(h.Target), Scheme: string(h.Scheme), Host: string(h.Host),
		Path: string(h.Path), Query: string(h.Query), Version: h.Version, Status: h.Status, Pushed: h.Pushed,
		RequestFields: copied(h.RequestFields), ResponseFields: copied(h.ResponseFields),
	}
	if g, ok := e.Operation.(*grpccall.Call); ok {
		x.Service, x.RPC, x.RPCStatus = string(g.Service), string(g.Name), g.Status
		x.RequestMessages, x.ResponseCount = g.RequestMessages, g.ResponseMessages
	}
	return x
}

// listener is a connection and all that it reported.
type listener struct {
	*l7.Conn
	stats    l7.Stats
	sink     l7.Sink
	now      int64
	reported []reported
	ended    []int64 // of each that was reported
}

func listen() *listener { return listenWithin(l7.DefaultLimits()) }

func listenWithin(limits l7.Limits) *listener {
	l := &listener{}
	l.sink = l7.Sink{Limits: limits, Stats: &l.stats, Exchange: func(e *l7.Exchange) { l.reported, l.ended = append(l.reported, reportOf(e)), append(l.ended, e.Ended) }}
	protocols := []l7.Protocol{http1.New(nil, nil), http2.New(requestFields, responseFields)}
	l.Conn = l7.NewConn(protocols, l7.TCP, l7.RoleUnknown, &l.sink)
	return l
}

// keepContents has contents kept and the exchanges reported to another; nothing was fed before.
func (l *listener) keepContents(contents *l7.Contents, report func(*l7.Exchange)) {
	l.sink.Contents, l.sink.Exchange = contents, report
}

// whole is a piece of which all bytes are known; its call takes 5 ns before now.
func whole(d l7.Direction, now int64, data []byte) l7.Piece {
	return l7.Piece{Direction: d, Began: now - 5, Ended: now, Length: int64(len(data)), Data: data}
}

// feed gives the next piece, 10 ns after the last.
func (l *listener) feed(d l7.Direction, data []byte) { l.feedMore(d, data, 0) }

// feedMore gives a piece that has more bytes than are known.
func (l *listener) feedMore(d l7.Direction, data []byte, more int64) {
	l.now += 10
	p := whole(d, l.now, bytes.Clone(data))
	p.Length += more
	l.Feed(p)
	for i := range p.Data {
		p.Data[i] = 0xff // it is valid until the call returns, no longer
	}
}

// feedLost gives a piece before which bytes are missing.
func (l *listener) feedLost(d l7.Direction, lost int64, data []byte) {
	l.now += 10
	p := whole(d, l.now, bytes.Clone(data))
	p.Lost, p.LostAt = lost, l.now-7
	l.Feed(p)
}

// end writes the frames of one end of a connection, with golang.org/x/net.
type end struct {
	t   testing.TB
	out bytes.Buffer
	*xhttp2.Framer
	block   bytes.Buffer
	encoder *xhpack.Encoder
}

func newEnd(t testing.TB) *end {
	e := &end{t: t}
	e.Framer = xhttp2.NewFramer(&e.out, nil)
	e.encoder = xhpack.NewEncoder(&e.block)
	return e
}

// take returns what was written since it was called last.
func (e *end) take() []byte {
	data := bytes.Clone(e.out.Bytes())
	e.out.Reset()
	return data
}

// fields encodes names and values in turns.
func (e *end) fields(list ...string) []byte {
	e.block.Reset()
	for i := 0; i < len(list); i += 2 {
		require.NoError(e.t, e.encoder.WriteField(xhpack.HeaderField{Name: list[i], Value: list[i+1]}))
	}
	return bytes.Clone(e.block.Bytes())
}

// headers writes a header block.
func (e *end) headers(id uint32, ends bool, list ...string) *end {
	require.NoError(e.t, e.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: e.fields(list...), EndStream: ends, EndHeaders: true}))
	return e
}

// get writes a request without a body.
func (e *end) get(id uint32, path string) *end {
	return e.headers(id, true, ":method", "GET", ":scheme", "http", ":authority", "h", ":path", path)
}

// data writes content.
func (e *end) data(id uint32, ends bool, content string) *end {
	require.NoError(e.t, e.WriteData(id, ends, []byte(content)))
	return e
}

// settings writes the settings of an end that has no wishes.
func (e *end) settings() *end {
	require.NoError(e.t, e.WriteSettings())
	return e
}

// hello writes what a client begins with.
func (e *end) hello() *end {
	e.out.WriteString(xhttp2.ClientPreface)
	return e.settings()
}

// brief is an exchange in one line.
func brief(x reported) []any {
	return []any{x.Method, x.Path, x.Status, x.Request.Body, x.Response.Body, x.Outcome}
}

// requireBriefs compares what was reported in short.
func (l *listener) requireBriefs(t *testing.T, want ...[]any) {
	t.Helper()
	var got [][]any
	for _, x := range l.reported {
		got = append(got, brief(x))
	}
	for _, w := range want {
		for i := range w {
			if n, is := w[i].(int); is && i > 2 {
				w[i] = int64(n)
			}
		}
	}
	require.Equal(t, want, got)
}
