// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// sides are the processes of a connection as each knows the other.
const (
	clientPID = 10
	serverPID = 20
)

// sideOf returns a request as one side has it: positions of request and response, and times in ns.
func sideOf(role l7.Role, request, response uint32, first, last int64) *Request {
	e := carrying(role, "", 200)
	e.Request.Position, e.Response.Position = request, response
	e.Request.First, e.Request.Last, e.Response.First, e.Response.Last, e.Ended = first, first, last, last, 0
	pid := uint32(serverPID)
	if role == l7.RoleClient {
		pid = clientPID
	}
	return newRequest(Connection{Subject: observe.SubjectKey{PID: pid}}, e, "/users/{id}", &Redaction{}, wall)
}

// known returns the remote end of each side's connection, by its pid.
func known(r *Request) Local {
	if r.record.Role == l7.RoleClient {
		return Local{PID: serverPID, Here: true}
	}
	return Local{PID: clientPID, Here: true}
}

// TestPair checks which two sides of a request belong together.
func TestPair(t *testing.T) {
	plain := func(r *Request) *Request { return r }
	through := func(r *Request) *Request { r.TLS = true; return r }
	unknownPIDs := func(*Request) Local { return Local{Here: true} }
	for name, tt := range map[string]struct {
		client, server, another *Request
		other                   func(*Request) Local
		paired                  bool
	}{
		"the same":                                     {sideOf(l7.RoleClient, 7, 9, 100, 500), sideOf(l7.RoleServer, 7, 9, 200, 400), nil, known, true},
		"the client has no response":                   {sideOf(l7.RoleClient, 7, 0, 100, 500), sideOf(l7.RoleServer, 7, 9, 200, 400), nil, known, true},
		"of a server with several processes":           {sideOf(l7.RoleClient, 7, 9, 100, 500), sideOf(l7.RoleServer, 7, 9, 200, 400), nil, unknownPIDs, true},
		"of another request":                           {sideOf(l7.RoleClient, 8, 9, 100, 500), sideOf(l7.RoleServer, 7, 9, 200, 400), nil, known, false},
		"of another response":                          {sideOf(l7.RoleClient, 7, 8, 100, 500), sideOf(l7.RoleServer, 7, 9, 200, 400), nil, known, false},
		"received before it was sent":                  {sideOf(l7.RoleClient, 7, 9, 100, 500), sideOf(l7.RoleServer, 7, 9, 99, 400), nil, known, false},
		"received after its end":                       {sideOf(l7.RoleClient, 7, 9, 100, 500), sideOf(l7.RoleServer, 7, 9, 501, 600), nil, known, false},
		"without a position":                           {sideOf(l7.RoleClient, 0, 9, 100, 500), sideOf(l7.RoleServer, 0, 9, 200, 400), nil, known, false},
		"of another process":                           {sideOf(l7.RoleClient, 7, 9, 100, 500), sideOf(l7.RoleServer, 7, 9, 200, 400), nil, func(*Request) Local { return Local{PID: 30, Here: true} }, false},
		"of another host":                              {sideOf(l7.RoleClient, 7, 9, 100, 500), sideOf(l7.RoleServer, 7, 9, 200, 400), nil, func(*Request) Local { return Local{} }, false},
		"of two that agree":                            {sideOf(l7.RoleClient, 7, 9, 100, 500), sideOf(l7.RoleServer, 7, 9, 200, 400), sideOf(l7.RoleClient, 7, 9, 150, 500), known, false},
		"of two servers that agree":                    {sideOf(l7.RoleClient, 7, 9, 100, 500), sideOf(l7.RoleServer, 7, 9, 200, 400), sideOf(l7.RoleServer, 7, 9, 250, 400), known, false},
		"within TLS":                                   {through(sideOf(l7.RoleClient, 1, 1, 100, 500)), through(sideOf(l7.RoleServer, 1, 1, 200, 400)), nil, known, true},
		"within TLS, one after the other":              {through(sideOf(l7.RoleClient, 1, 1, 100, 500)), through(sideOf(l7.RoleServer, 1, 1, 200, 400)), through(sideOf(l7.RoleClient, 1, 1, 501, 900)), known, true},
		"within TLS, of unknown processes":             {through(sideOf(l7.RoleClient, 1, 1, 100, 500)), through(sideOf(l7.RoleServer, 1, 1, 200, 400)), nil, unknownPIDs, false},
		"within TLS, two connections at the same time": {through(sideOf(l7.RoleClient, 1, 1, 100, 500)), through(sideOf(l7.RoleServer, 1, 1, 200, 400)), through(sideOf(l7.RoleServer, 1, 1, 210, 390)), known, false},
		"in plaintext and within TLS":                  {plain(sideOf(l7.RoleClient, 7, 9, 100, 500)), through(sideOf(l7.RoleServer, 7, 9, 200, 400)), nil, known, false},
	} {
		t.Run(name, func(t *testing.T) {
			list := []*Request{tt.server, tt.client}
			if tt.another != nil {
				list = append(list, tt.another)
			}
			made, waiting := Pair(list, tt.other, wall(1e9), true)
			require.Equal(t, list, made)
			require.Empty(t, waiting)
			client, server := tt.client.Span(nil), tt.server.Span(nil)
			require.Equal(t, [8]byte{}, client.ParentID, "no context was carried")
			if !tt.paired {
				require.Equal(t, [8]byte{}, server.ParentID)
				require.NotEqual(t, client.TraceID, server.TraceID)
				return
			}
			require.Equal(t, client.SpanID, server.ParentID)
			require.Equal(t, client.TraceID, server.TraceID)
			require.NotEqual(t, client.SpanID, server.SpanID)
			require.True(t, server.Remote)
			if tt.another != nil {
				require.NotEqual(t, client.TraceID, tt.another.Span(nil).TraceID)
			}
		})
	}
}

// TestPairWithinATrace checks that a client's span keeps the parent of a carried context, and the server's has the client's.
func TestPairWithinATrace(t *testing.T) {
	client, server := sideOf(l7.RoleClient, 7, 9, 100, 500), sideOf(l7.RoleServer, 7, 9, 200, 400)
	of := newRequest(Connection{}, carrying(l7.RoleClient, recorded, 200), "", &Redaction{}, wall)
	client.record.Trace, server.record.Trace = of.record.Trace, of.record.Trace
	Pair([]*Request{client, server}, known, wall(1e9), true)
	require.Equal(t, of.record.Trace.TraceID, client.Span(nil).TraceID)
	require.Equal(t, of.record.Trace.SpanID, client.Span(nil).ParentID)
	require.Equal(t, of.record.Trace.TraceID, server.Span(nil).TraceID)
	require.Equal(t, client.Span(nil).SpanID, server.Span(nil).ParentID)
}

// TestPairWaits checks that a request waits for its other side as long as it may, and no request does that has none on this host.
func TestPairWaits(t *testing.T) {
	server, far := sideOf(l7.RoleServer, 7, 9, 200, 400), sideOf(l7.RoleServer, 8, 9, 200, 400)
	other := func(r *Request) Local { return Local{Here: r == server} }
	ended := server.ended
	made, waiting := Pair([]*Request{server, far}, other, ended.Add(PairWait-time.Millisecond), false)
	require.Equal(t, []*Request{far}, made)
	require.Equal(t, []*Request{server}, waiting)
	made, waiting = Pair(waiting, other, ended.Add(PairWait), false)
	require.Equal(t, []*Request{server}, made)
	require.Empty(t, waiting)
	client := sideOf(l7.RoleClient, 7, 9, 100, 500)
	server.link = nil
	_, waiting = Pair([]*Request{server}, known, ended, false)
	made, waiting = Pair(append(waiting, client), known, ended, false)
	require.Len(t, made, 2)
	require.Empty(t, waiting)
	require.Equal(t, client.Span(nil).SpanID, server.Span(nil).ParentID)
}
