// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// wall is the wall clock of tests: monotonic time plus this day.
func wall(ns int64) time.Time { return time.Date(2026, 11, 1, 0, 0, 0, int(ns), time.UTC) }

const plenty = 1 << 20

func values(list []model.Attribute) map[string]any {
	all := map[string]any{}
	for _, a := range list {
		var value any = a.Value.Text
		switch a.Value.Type {
		case model.IntAttribute:
			value = a.Value.Int
		case model.FloatAttribute:
			value = a.Value.Float()
		case model.BoolAttribute:
			value = a.Value.Int != 0
		}
		all[a.Key] = value
	}
	return all
}

// paths returns the paths of requests in their order.
func paths(requests []*Request) (list []string) {
	for _, r := range requests {
		list = append(list, values(r.appendLog(nil))["url.path"].(string))
	}
	return list
}

// TestWhichRequestsAreExported checks which of several requests each value of Which exports.
func TestWhichRequestsAreExported(t *testing.T) {
	unanswered := exchange(l7.RoleServer, "/unanswered", 0, 0)
	unanswered.Response, unanswered.ErrorType = l7.Side{}, l7.ErrorNoResponse
	all := []*l7.Exchange{
		exchange(l7.RoleServer, "/fast", 200, 499), exchange(l7.RoleServer, "/slow", 200, 500),
		exchange(l7.RoleServer, "/absent", 404, 1), exchange(l7.RoleServer, "/fails", 500, 1), unanswered,
	}
	for which, want := range map[Which][]string{
		NoRequests: nil, SlowOrError: {"/slow", "/fails", "/unanswered"}, AllRequests: {"/fast", "/slow", "/absent", "/fails", "/unanswered"},
	} {
		j := NewJournal(JournalConfig{Which: which, Slow: 500 * time.Millisecond, Bytes: plenty})
		for _, e := range all {
			j.Add(Connection{Subject: someone}, e, "", wall)
		}
		require.Equal(t, want, paths(j.Take(AsLog)))
		require.Empty(t, j.Take(AsLog), "they are exported once")
		require.Empty(t, j.TakeTop())
		require.Zero(t, j.Bytes())
	}
	require.False(t, (&JournalConfig{}).Enabled())
	require.True(t, (&JournalConfig{Top: 1}).Enabled())
	require.True(t, (&JournalConfig{Which: SlowOrError}).Enabled())
}

// TestTopRequests checks that of each process, peer and reason the requests that took longest are reported, longest first, and that
// successful ones are reported only if they were slow.
func TestTopRequests(t *testing.T) {
	j := NewJournal(JournalConfig{Slow: 100 * time.Millisecond, Top: 2, Bytes: plenty})
	one, other := Connection{Peer: netip.MustParseAddrPort("192.0.2.1:0")}, Connection{Peer: netip.MustParseAddrPort("192.0.2.2:0")}
	for path, ms := range map[string]int{"/a": 100, "/b": 300, "/c": 200, "/d": 99} {
		j.Add(one, exchange(l7.RoleServer, path, 200, ms), "", wall)
	}
	j.Add(other, exchange(l7.RoleServer, "/e", 200, 150), "", wall)
	j.Add(one, exchange(l7.RoleServer, "/absent", 404, 5), "", wall)
	j.Add(one, exchange(l7.RoleServer, "/first", 503, 400), "", wall)
	j.Add(one, exchange(l7.RoleServer, "/again", 503, 400), "", wall)
	j.Add(one, exchange(l7.RoleServer, "/less", 503, 399), "", wall)
	require.Empty(t, j.Take(AsLog))
	top := j.TakeTop()
	require.ElementsMatch(t, []string{"/again", "/first", "/e"}, paths(top[Slow]))
	require.Equal(t, []string{"/absent"}, paths(top[ClientError]))
	require.ElementsMatch(t, []string{"/first", "/again"}, paths(top[ServerError]))
	require.Empty(t, j.TakeTop(), "an interval begins anew")
	require.Zero(t, j.Bytes())
	for path, ms := range map[string]int{"/a": 100, "/b": 300, "/c": 200} {
		j.Add(one, exchange(l7.RoleServer, path, 200, ms), "", wall)
	}
	require.Equal(t, []string{"/b", "/c"}, paths(j.TakeTop()[Slow]))
	j.Add(one, exchange(l7.RoleServer, "/fine", 200, 99), "", wall)
	require.Empty(t, j.TakeTop(), "it is the slowest of its interval, and was not slow")
}

// TestJournalIsBounded checks that requests beyond the memory are counted, that released memory is used again, and that the estimate of a
// request's memory is right.
func TestJournalIsBounded(t *testing.T) {
	long := exchange(l7.RoleServer, "/"+strings.Repeat("x", 999), 200, 1)
	size := newRequest(Connection{}, long, "", &Redaction{}, wall).bytes()
	require.Greater(t, size, uint64(1000))
	require.Less(t, size, uint64(1500))
	j := NewJournal(JournalConfig{Which: AllRequests, Top: 10, Bytes: 3 * size})
	for range 5 {
		j.Add(Connection{Subject: someone}, long, "", wall)
	}
	require.EqualValues(t, [2]uint64{5 - 2, 5 - 1}, [2]uint64{decided(j).Lost(AsLog), decided(j).TopLost()}, "each is kept twice, as one of the top ones, too")
	require.Equal(t, 3*size, j.Bytes())
	waiting := j.Take(AsLog)
	require.Len(t, append(waiting, j.TakeTop()[Slow]...), 3)
	lost := decided(j).Lost(AsLog)
	j.PutBack(waiting, AsLog)
	require.Equal(t, waiting, j.Take(AsLog))
	require.Equal(t, lost, decided(j).Lost(AsLog))
	require.Zero(t, j.Bytes())
}

// TestRequestsAreReused checks that the struct of an exported request is reused without anything of the first one, but never that of a top
// request or of one that waits again; and that such structs count in the journal's memory.
func TestRequestsAreReused(t *testing.T) {
	config := JournalConfig{Which: AllRequests, Slow: time.Hour, Bytes: plenty}
	j := NewJournal(config)
	var before *Request
	for _, path := range []string{"/long/path", "/x", "/y"} {
		j.Add(Connection{Subject: someone}, exchange(l7.RoleServer, path, 200, 1), "", wall)
		taken := j.Take(AsLog)
		require.Equal(t, []string{path}, paths(taken))
		require.True(t, before == nil || before == taken[0])
		before = taken[0]
		j.PutBack(taken, AsLog)
		taken = j.Take(AsLog)
		require.Same(t, before, taken[0])
		j.Release(taken, AsLog)
		require.Equal(t, Request{}, *before)
		require.Equal(t, requestBytes+8*uint64(cap(j.spare[AsLog])), j.Bytes())
	}
	config.Top, config.Slow = 1, 9*time.Millisecond
	j = NewJournal(config)
	j.Add(Connection{Subject: someone}, exchange(l7.RoleServer, "/slowest", 200, 9), "", wall)
	j.Release(j.Take(AsLog), AsLog)
	j.Add(Connection{Subject: someone}, exchange(l7.RoleServer, "/other", 200, 1), "", wall)
	require.Equal(t, []string{"/slowest"}, paths(j.TakeTop()[Slow]))

	config.Top, config.Bytes = 0, 20*requestBytes
	j = NewJournal(config)
	for range 15 {
		j.Add(Connection{Subject: someone}, exchange(l7.RoleServer, "/", 200, 1), "", wall)
	}
	j.Release(j.Take(AsLog), AsLog)
	require.Equal(t, 5*requestBytes+8*uint64(cap(j.spare[AsLog])), j.Bytes(), "a quarter of its memory")
}

// TestRequestsAllocateTheirTextsAlone checks that keeping and exporting a request allocates only its texts.
func TestRequestsAllocateTheirTextsAlone(t *testing.T) {
	j := NewJournal(JournalConfig{Which: AllRequests, Slow: time.Hour, Bytes: plenty, Redact: Redaction{Query: true}})
	e := exchange(l7.RoleServer, "/users/18", 200, 1)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		j.Add(Connection{Subject: someone}, e, "/users/{id}", wall)
		j.Release(j.Take(AsLog), AsLog)
	}), 1.0)
}

// TestTopRequestsStayWhereAnotherDoesNotFit checks that a top request is replaced by one that took longer, and stays if the memory is not
// enough for that one.
func TestTopRequestsStayWhereAnotherDoesNotFit(t *testing.T) {
	short := exchange(l7.RoleServer, "/short", 200, 100)
	j := NewJournal(JournalConfig{Slow: 100 * time.Millisecond, Top: 1, Bytes: topShare * newRequest(Connection{}, short, "", &Redaction{}, wall).bytes()})
	j.Add(Connection{Subject: someone}, short, "", wall)
	j.Add(Connection{Subject: someone}, exchange(l7.RoleServer, "/as-long", 200, 300), "", wall)
	j.Add(Connection{Subject: someone}, exchange(l7.RoleServer, "/again", 200, 200), "", wall)
	require.EqualValues(t, 1, decided(j).TopLost())
	j.Add(Connection{Subject: someone}, exchange(l7.RoleServer, "/other", 200, 400), "", wall)
	require.EqualValues(t, 1, decided(j).TopLost())
	require.Equal(t, []string{"/other"}, paths(j.TakeTop()[Slow]))
	j.Add(Connection{Subject: someone}, short, "", wall)
	j.Add(Connection{Subject: someone}, exchange(l7.RoleServer, "/as-long", 200, 300), "", wall)
	require.Equal(t, []string{"/short"}, paths(j.TakeTop()[Slow]))
	require.Zero(t, j.Bytes())
}

// TestTopRequestsLeaveMemory checks that top requests of many peers, which rank each, leave memory for those that are exported since they
// failed, and that those for which there is none are counted.
func TestTopRequestsLeaveMemory(t *testing.T) {
	const peers = 1000
	fine, failed := exchange(l7.RoleServer, "/absent", 404, 1), exchange(l7.RoleServer, "/failed", 500, 1)
	size := newRequest(Connection{}, failed, "", &Redaction{}, wall).bytes()
	j := NewJournal(JournalConfig{Which: SlowOrError, Slow: time.Hour, Top: 1, Bytes: 20 * size})
	for i := range peers {
		j.Add(Connection{Subject: someone, Peer: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), 0)}, fine, "", wall)
	}
	lost := decided(j).TopLost()
	require.GreaterOrEqual(t, lost, uint64(peers-20))
	require.Zero(t, decided(j).Lost(AsLog), "no log of theirs was configured")
	for range 9 {
		j.Add(Connection{Subject: someone}, failed, "", wall)
	}
	require.Len(t, j.Take(AsLog), 9)
	top := j.TakeTop()
	require.EqualValues(t, peers-lost, len(top[ClientError]))
	require.Zero(t, j.Bytes())
	require.Zero(t, j.top.used)
	require.Empty(t, j.top.held)
}

// TestRequestLog checks all that is exported of a request, on both sides.
func TestRequestLog(t *testing.T) {
	fields := make([][]byte, len(httpexchange.Fields()))
	fields[0], fields[len(fields)-1] = []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), []byte("curl/8")
	ask := func(role l7.Role) *l7.Exchange {
		e := exchange(role, "/users/17", 503, 700)
		h := httpexchange.Of(e)
		h.Query, h.Host, h.RequestFields = []byte("name=smith&&token"), []byte("shop.example:8080"), fields
		h.Method, h.OriginalMethod = rfc9110.OtherMethod, []byte("BREW")
		return e
	}
	conn := Connection{Subject: observe.SubjectKey{PID: 7}, Peer: netip.MustParseAddrPort("192.0.2.1:80")}
	observed := wall(9e9)
	log := newRequest(conn, ask(l7.RoleServer), "/users/{id}", &Redaction{Query: true, Headers: []string{"cookie"}}, wall).Log(
		&Room{}, []model.Attribute{model.Text("network.peer.address", "192.0.2.1")}, observed)
	require.Equal(t, "ebpf.request", log.Event)
	require.Equal(t, wall(5.7e9), log.Time, "of the last byte")
	require.Equal(t, observed, log.Observed)
	require.Equal(t, model.Error, log.Severity)
	require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", hex.EncodeToString(log.TraceID[:]))
	require.Equal(t, "00f067aa0ba902b7", hex.EncodeToString(log.SpanID[:]))
	require.True(t, log.Sampled)
	want := map[string]any{
		"ebpf.role": "server", "ebpf.request.duration": 0.7, "http.request.method": "_OTHER", "http.request.method_original": "BREW",
		"http.route": "/users/{id}", "http.response.status_code": int64(503), "error.type": "503",
		"url.scheme": "http", "url.path": "/users/17", "url.query": "name=?&?&?", "user_agent.original": "curl/8",
		"server.address": "shop.example", "server.port": int64(8080), "network.protocol.name": "http", "network.protocol.version": "1.1",
		"http.request.body.size": int64(0), "http.response.body.size": int64(900), "http.request.size": int64(100), "http.response.size": int64(1000),
		"network.peer.address": "192.0.2.1",
	}
	require.Equal(t, want, values(log.Attributes))
	require.Len(t, log.Attributes, len(want), "no key comes twice")

	hidden := newRequest(conn, ask(l7.RoleClient), "", &Redaction{Headers: []string{"USER-agent", "host"}}, wall)
	got := values(hidden.Log(&Room{}, nil, observed).Attributes)
	require.Equal(t, "client", got["ebpf.role"])
	require.Equal(t, "[redacted]", got["user_agent.original"])
	require.Equal(t, "[redacted]", got["server.address"])
	require.Equal(t, "name=smith&&token", got["url.query"], "it was not asked for")
	require.True(t, hidden.IsOf(l7.RoleClient) && hidden.IsOf(l7.RoleUnknown) && !hidden.IsOf(l7.RoleServer))

	bare := exchange(l7.RoleClient, "", 0, 0)
	bare.Request, bare.Operation = l7.Side{}, &httpexchange.Exchange{Version: "1.0", Status: 204}
	require.Equal(t, map[string]any{
		"ebpf.role": "client", "http.request.method": "*", "http.response.status_code": int64(204), "url.scheme": "http",
		"network.protocol.name": "http", "network.protocol.version": "1.0", "server.address": "192.0.2.1", "server.port": int64(80),
		"http.response.body.size": int64(900), "http.response.size": int64(1000),
	}, values(newRequest(conn, bare, "", &Redaction{}, wall).Log(&Room{}, nil, observed).Attributes), "of a response whose request was not seen")

	slow := exchange(l7.RoleServer, "/", 200, 100)
	for threshold, want := range map[time.Duration]model.Severity{100 * time.Millisecond: model.Warn, time.Second: model.Info} {
		j := NewJournal(JournalConfig{Which: AllRequests, Slow: threshold, Bytes: plenty})
		j.Add(conn, slow, "", wall)
		require.Equal(t, want, j.Take(AsLog)[0].Log(&Room{}, nil, observed).Severity, threshold)
	}
}

// TestLogsShareRoom checks that logs whose attributes are stored one after the other do not see what is appended to another.
func TestLogsShareRoom(t *testing.T) {
	const logs = 3 * roomFor / 16
	var room Room
	var all []model.Log
	peer := []model.Attribute{model.Text("network.transport", "tcp")}
	for n := range logs {
		e := exchange(l7.RoleServer, "/", 200+n, 100)
		all = append(all, newRequest(Connection{}, e, "", &Redaction{}, wall).Log(&room, peer, time.Time{}))
	}
	for n := range all {
		all[n].Attributes = append(all[n].Attributes, model.Int("appended", int64(n)))
	}
	for n, l := range all {
		got := values(l.Attributes)
		require.Len(t, got, len(l.Attributes), "no key comes twice")
		require.EqualValues(t, 200+n, got["http.response.status_code"])
		require.Equal(t, "tcp", got["network.transport"])
		require.EqualValues(t, n, got["appended"])
	}
}

func BenchmarkJournal(b *testing.B) {
	e := exchange(l7.RoleServer, "/users/18", 200, 1)
	httpexchange.Of(e).RequestFields = make([][]byte, len(httpexchange.Fields()))
	j := NewJournal(JournalConfig{Which: AllRequests, Slow: time.Second, Top: 10, Bytes: plenty, Redact: Redaction{Query: true}})
	b.ReportAllocs()
	var room Room
	for b.Loop() {
		j.Add(Connection{Subject: someone}, e, "/users/{id}", wall)
		taken := j.Take(AsLog)
		for _, r := range taken {
			r.Log(&room, nil, time.Time{})
		}
		j.Release(taken, AsLog)
	}
}
