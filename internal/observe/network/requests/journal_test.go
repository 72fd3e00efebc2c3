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

// paths are what requests asked for, in their order.
func paths(requests []*Request) (list []string) {
	for _, r := range requests {
		list = append(list, r.path)
	}
	return list
}

// TestWhichRequestsAreTold holds which of several requests each choice tells.
func TestWhichRequestsAreTold(t *testing.T) {
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
			j.Add(Whom{}, e, "", wall)
		}
		require.Equal(t, want, paths(j.Take(AsLog)))
		require.Empty(t, j.Take(AsLog), "they are told once")
		require.Empty(t, j.TakeTop())
		require.Zero(t, j.Bytes())
	}
	require.False(t, (&JournalConfig{}).Tells())
	require.True(t, (&JournalConfig{Top: 1}).Tells())
	require.True(t, (&JournalConfig{Which: SlowOrError}).Tells())
}

// TestTopRequests holds that of each process, peer and reason those are told that took longest, longest first.
func TestTopRequests(t *testing.T) {
	j := NewJournal(JournalConfig{Slow: time.Hour, Top: 2, Bytes: plenty})
	one, other := Whom{Peer: netip.MustParseAddrPort("192.0.2.1:0")}, Whom{Peer: netip.MustParseAddrPort("192.0.2.2:0")}
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
}

// TestJournalIsBounded holds that what finds no room is counted, that room comes back, and that it is estimated as what it is.
func TestJournalIsBounded(t *testing.T) {
	long := exchange(l7.RoleServer, "/"+strings.Repeat("x", 999), 200, 1)
	size := newRequest(Whom{}, long, "", &Redaction{}, wall).bytes()
	require.Greater(t, size, uint64(1000))
	require.Less(t, size, uint64(1500))
	j := NewJournal(JournalConfig{Which: AllRequests, Top: 10, Bytes: 3 * size})
	for range 5 {
		j.Add(Whom{}, long, "", wall)
	}
	require.EqualValues(t, [2]uint64{5 - 2, 5 - 1}, [2]uint64{j.Lost(AsLog), j.TopLost()}, "each is kept twice, as one of the top ones, too")
	require.Equal(t, 3*size, j.Bytes())
	waiting := j.Take(AsLog)
	require.Len(t, append(waiting, j.TakeTop()[Slow]...), 3)
	lost := j.Lost(AsLog)
	j.PutBack(waiting, AsLog)
	require.Equal(t, waiting, j.Take(AsLog))
	require.Equal(t, lost, j.Lost(AsLog))
	require.Zero(t, j.Bytes())
}

// TestPlacesAreUsedAgain holds that the place of a request which was told takes another one, with nothing of the first left, and never that
// of one that is among the top ones or waits again; and that such places are within the journal's memory.
func TestPlacesAreUsedAgain(t *testing.T) {
	config := JournalConfig{Which: AllRequests, Slow: time.Hour, Bytes: plenty}
	j := NewJournal(config)
	var before *Request
	for _, path := range []string{"/long/path", "/x", "/y"} {
		j.Add(Whom{}, exchange(l7.RoleServer, path, 200, 1), "", wall)
		taken := j.Take(AsLog)
		require.Equal(t, []string{path}, paths(taken))
		require.True(t, before == nil || before == taken[0])
		before = taken[0]
		j.PutBack(taken, AsLog)
		taken = j.Take(AsLog)
		require.Same(t, before, taken[0])
		j.Told(taken, AsLog)
		require.Equal(t, Request{}, *before)
		require.Equal(t, placeBytes+8*uint64(cap(j.spare[AsLog])), j.Bytes())
	}
	config.Top = 1
	j = NewJournal(config)
	j.Add(Whom{}, exchange(l7.RoleServer, "/slowest", 200, 9), "", wall)
	j.Told(j.Take(AsLog), AsLog)
	j.Add(Whom{}, exchange(l7.RoleServer, "/other", 200, 1), "", wall)
	require.Equal(t, []string{"/slowest"}, paths(j.TakeTop()[Slow]))

	config.Top, config.Bytes = 0, 20*placeBytes
	j = NewJournal(config)
	for range 15 {
		j.Add(Whom{}, exchange(l7.RoleServer, "/", 200, 1), "", wall)
	}
	j.Told(j.Take(AsLog), AsLog)
	require.Equal(t, 5*placeBytes+8*uint64(cap(j.spare[AsLog])), j.Bytes(), "a quarter of its memory")
}

// TestRequestsAllocateTheirTextsAlone holds that a request is kept and told without any memory of its own but that of its texts.
func TestRequestsAllocateTheirTextsAlone(t *testing.T) {
	j := NewJournal(JournalConfig{Which: AllRequests, Slow: time.Hour, Bytes: plenty, Redact: Redaction{Query: true}})
	e := exchange(l7.RoleServer, "/users/18", 200, 1)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		j.Add(Whom{}, e, "/users/{id}", wall)
		j.Told(j.Take(AsLog), AsLog)
	}), 1.0)
}

// TestTopRequestsStayWhereAnotherFindsNoRoom holds that one of the top ones makes room for one that took longer, and stays where that
// is not enough.
func TestTopRequestsStayWhereAnotherFindsNoRoom(t *testing.T) {
	short := exchange(l7.RoleServer, "/short", 200, 100)
	j := NewJournal(JournalConfig{Slow: time.Hour, Top: 1, Bytes: topShare * newRequest(Whom{}, short, "", &Redaction{}, wall).bytes()})
	j.Add(Whom{}, short, "", wall)
	j.Add(Whom{}, exchange(l7.RoleServer, "/as-long", 200, 300), "", wall)
	j.Add(Whom{}, exchange(l7.RoleServer, "/again", 200, 200), "", wall)
	require.EqualValues(t, 1, j.TopLost())
	j.Add(Whom{}, exchange(l7.RoleServer, "/other", 200, 400), "", wall)
	require.EqualValues(t, 1, j.TopLost())
	require.Equal(t, []string{"/other"}, paths(j.TakeTop()[Slow]))
	j.Add(Whom{}, short, "", wall)
	j.Add(Whom{}, exchange(l7.RoleServer, "/as-long", 200, 300), "", wall)
	require.Equal(t, []string{"/short"}, paths(j.TakeTop()[Slow]))
	require.Zero(t, j.Bytes())
}

// TestTopRequestsLeaveRoom holds that top requests of many peers, which rank each, leave room for those that are told since they failed, and
// that those which find none are counted.
func TestTopRequestsLeaveRoom(t *testing.T) {
	const peers = 1000
	fine, failed := exchange(l7.RoleServer, "/fine", 200, 1), exchange(l7.RoleServer, "/failed", 500, 1)
	size := newRequest(Whom{}, failed, "", &Redaction{}, wall).bytes()
	j := NewJournal(JournalConfig{Which: SlowOrError, Slow: time.Hour, Top: 1, Bytes: 20 * size})
	for i := range peers {
		j.Add(Whom{Peer: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}), 0)}, fine, "", wall)
	}
	lost := j.TopLost()
	require.GreaterOrEqual(t, lost, uint64(peers-20))
	require.Zero(t, j.Lost(AsLog), "whose log was not wanted")
	for range 9 {
		j.Add(Whom{}, failed, "", wall)
	}
	require.Len(t, j.Take(AsLog), 9)
	top := j.TakeTop()
	require.EqualValues(t, peers-lost, len(top[Slow]))
	require.Zero(t, j.Bytes())
	require.Zero(t, j.top)
}

// TestRequestLog holds all that is told of a request, on both sides.
func TestRequestLog(t *testing.T) {
	fields := make([][]byte, len(Fields()))
	fields[0], fields[len(fields)-1] = []byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), []byte("curl/8")
	ask := func(role l7.Role) *l7.Exchange {
		e := exchange(role, "/users/17", 503, 700)
		e.HTTP.Query, e.HTTP.Host, e.HTTP.RequestFields = []byte("name=smith&&token"), []byte("shop.example:8080"), fields
		e.HTTP.Method, e.HTTP.OriginalMethod = l7.OtherMethod, []byte("BREW")
		return e
	}
	whom := Whom{Subject: observe.SubjectKey{PID: 7}, Peer: netip.MustParseAddrPort("192.0.2.1:80")}
	observed := wall(9e9)
	log := newRequest(whom, ask(l7.RoleServer), "/users/{id}", &Redaction{Query: true, Headers: []string{"cookie"}}, wall).Log(
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

	hidden := newRequest(whom, ask(l7.RoleClient), "", &Redaction{Headers: []string{"USER-agent", "host"}}, wall)
	got := values(hidden.Log(&Room{}, nil, observed).Attributes)
	require.Equal(t, "client", got["ebpf.role"])
	require.Equal(t, "[redacted]", got["user_agent.original"])
	require.Equal(t, "[redacted]", got["server.address"])
	require.Equal(t, "name=smith&&token", got["url.query"], "it was not asked for")
	require.True(t, hidden.IsOf(l7.RoleClient) && hidden.IsOf(l7.RoleUnknown) && !hidden.IsOf(l7.RoleServer))

	bare := exchange(l7.RoleClient, "", 0, 0)
	bare.Request, bare.HTTP = l7.Side{}, &l7.HTTP{Version: "1.0", Status: 204}
	require.Equal(t, map[string]any{
		"ebpf.role": "client", "http.request.method": "*", "http.response.status_code": int64(204), "url.scheme": "http",
		"network.protocol.name": "http", "network.protocol.version": "1.0", "server.address": "192.0.2.1", "server.port": int64(80),
		"http.response.body.size": int64(900), "http.response.size": int64(1000),
	}, values(newRequest(whom, bare, "", &Redaction{}, wall).Log(&Room{}, nil, observed).Attributes), "of a response whose request was not seen")

	slow := exchange(l7.RoleServer, "/", 200, 100)
	for threshold, want := range map[time.Duration]model.Severity{100 * time.Millisecond: model.Warn, time.Second: model.Info} {
		j := NewJournal(JournalConfig{Which: AllRequests, Slow: threshold, Bytes: plenty})
		j.Add(whom, slow, "", wall)
		require.Equal(t, want, j.Take(AsLog)[0].Log(&Room{}, nil, observed).Severity, threshold)
	}
}

// TestLogsShareRoom holds that logs whose attributes lie one after the other do not see what is appended to another.
func TestLogsShareRoom(t *testing.T) {
	const logs = 3 * roomFor / 16
	var room Room
	var all []model.Log
	peer := []model.Attribute{model.Text("network.transport", "tcp")}
	for n := range logs {
		e := exchange(l7.RoleServer, "/", 200+n, 100)
		all = append(all, newRequest(Whom{}, e, "", &Redaction{}, wall).Log(&room, peer, time.Time{}))
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

func TestRedactedQuery(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "a=1": "a=?", "a=1&b=2": "a=?&b=?", "secret": "?", "a=": "a=?", "=x": "=?", "a=b=c": "a=?", "a=1;b=2": "a=?", "&": "?&?",
	} {
		require.Equal(t, want, string((&Redaction{Query: true}).appendQuery(nil, []byte(query))), query)
		require.Equal(t, query, string((&Redaction{}).appendQuery(nil, []byte(query))))
	}
}

// TestRedactedPath holds that values of parameters in a path are not told, where it is told by itself and within a URL.
func TestRedactedPath(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "/": "/", "*": "*", "/users/17": "/users/17", "/cart;jsessionid=SECRET": "/cart;jsessionid=?", "/a;v=1/b;w=2;x=3/c": "/a;v=?/b;w=?;x=?/c",
		"/a;SECRET/b": "/a;?/b", "/a;": "/a;", "/a;;b=": "/a;;b=?", "/a;b=c=d,e/": "/a;b=?/", ";=x": ";=?", "/a=1": "/a=1",
	} {
		require.Equal(t, want, string((&Redaction{Query: true}).appendPath(nil, []byte(path))), path)
		require.Equal(t, path, string((&Redaction{}).appendPath(nil, []byte(path))))
	}
	e := exchange(l7.RoleClient, "/cart;jsessionid=SECRET/items", 200, 1)
	e.HTTP.Host, e.HTTP.Query = []byte("shop.example:8080"), []byte("a=SECRET")
	r := newRequest(Whom{}, e, "/cart/items", &Redaction{Query: true}, wall)
	require.Equal(t, "/cart;jsessionid=?/items", values(r.appendTo(nil, routeKey))["url.path"])
	require.Equal(t, "http://shop.example:8080/cart;jsessionid=?/items?a=?", r.url())
}

func TestSplitHost(t *testing.T) {
	for field, want := range map[string]struct {
		host string
		port int64
	}{
		"": {"", 0}, "a": {"a", 0}, "a:80": {"a", 80}, "[2001:db8::1]": {"2001:db8::1", 0}, "[2001:db8::1]:443": {"2001:db8::1", 443},
		"a:": {"a:", 0}, "a:x": {"a:x", 0}, "a:99999": {"a:99999", 0}, ":80": {"", 80}, "[a]": {"[a]", 0},
	} {
		host, port := splitHost(field)
		require.Equal(t, want.host, host, field)
		require.Equal(t, want.port, port, field)
	}
}

func BenchmarkJournal(b *testing.B) {
	e := exchange(l7.RoleServer, "/users/18", 200, 1)
	e.HTTP.RequestFields = make([][]byte, len(Fields()))
	j := NewJournal(JournalConfig{Which: AllRequests, Slow: time.Second, Top: 10, Bytes: plenty, Redact: Redaction{Query: true}})
	b.ReportAllocs()
	var room Room
	for b.Loop() {
		j.Add(Whom{}, e, "/users/{id}", wall)
		taken := j.Take(AsLog)
		for _, r := range taken {
			r.Log(&room, nil, time.Time{})
		}
		j.Told(taken, AsLog)
	}
}
