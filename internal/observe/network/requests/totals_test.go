// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpccall"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/route"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// Bounds of the texts of a process, as docs/reference/telemetry.md has them.
const maxRoutes, maxNames, maxMethods = 200, 200, 200

// exchange returns a request of 100 bytes that was answered with 1,000 after some milliseconds.
func exchange(role l7.Role, path string, status, ms int) *l7.Exchange {
	e := &l7.Exchange{
		Protocol: "http", Role: role,
		Request:   l7.Side{Known: true, Ended: true, First: 5e9, Last: 5e9, Body: 0, Whole: 100},
		Response:  l7.Side{Known: true, Ended: true, First: 5e9, Last: 5e9 + int64(ms)*1e6, Body: 900, Whole: 1000},
		Operation: &httpexchange.Exchange{Method: "GET", Path: []byte(path), Version: "1.1", Status: status},
	}
	if status >= 500 {
		e.ErrorType = fmt.Sprint(status)
	}
	return e
}

func named(t *Totals, processes map[observe.SubjectKey]*model.Process) {
	t.Name(func(k observe.SubjectKey) (*model.Process, bool) { return processes[k], true })
}

func TestTotals(t *testing.T) {
	start := time.Unix(1000, 0)
	totals := NewTotals(Redaction{})
	totals.now = func() time.Time { return start }
	one, two, three := observe.SubjectKey{PID: 1}, observe.SubjectKey{PID: 2}, observe.SubjectKey{PID: 3}
	server := netip.MustParseAddrPort("192.0.2.1:80")
	totals.Add(Connection{Subject: one}, exchange(l7.RoleServer, "/users/17", 200, 5))
	totals.Add(Connection{Subject: one}, exchange(l7.RoleServer, "/users/18", 200, 6))
	totals.Add(Connection{Subject: one}, exchange(l7.RoleServer, "/users/18", 503, 20_000))
	totals.Add(Connection{Subject: two, Peer: server}, exchange(l7.RoleClient, "/users/18", 200, 1))
	totals.Add(Connection{Subject: three}, exchange(l7.RoleServer, "/users/18", 200, 1))
	unanswered := exchange(l7.RoleServer, "/lost", 0, 0)
	unanswered.Response, unanswered.Outcome, unanswered.ErrorType = l7.Side{}, l7.Unanswered, l7.ErrorNoResponse
	totals.Add(Connection{Subject: one}, unanswered)
	totals.Add(Connection{Subject: one}, lookupOf(l7.RoleServer, "served.example.", "")) // there is no metric for it
	counted, overflown := totals.Exchanges()
	require.EqualValues(t, 6, counted)
	require.Zero(t, overflown)

	require.Empty(t, totals.Metrics(start, l7.RoleUnknown), "their processes are not known yet")
	process := &model.Process{}
	other := &model.Process{ID: model.ProcessID{PID: 2}}
	named(totals, map[observe.SubjectKey]*model.Process{one: process, two: other}) // the third is out of scope
	exported := totals.Metrics(start.Add(time.Second), l7.RoleServer)
	require.Len(t, exported, 1)
	require.Same(t, process, exported[0].Process)
	points := map[string][]model.Point{}
	for _, m := range exported[0].Metrics {
		points[m.Name] = m.Points
	}
	require.Len(t, points, 6)
	untimed := points["ebpf.http.server.requests.untimed"]
	require.Len(t, untimed, 1)
	require.Equal(t, map[string]any{
		"http.request.method": "GET", "url.scheme": "http", "http.route": "/lost", "network.protocol.version": "1.1", "error.type": "no_response",
		"ebpf.role": "server", "network.protocol.name": "http",
	}, values(untimed[0].Attributes))
	require.Equal(t, []any{int64(1), start}, []any{untimed[0].Int, untimed[0].Start})
	durations := map[string]model.Point{}
	for _, p := range points["http.server.request.duration"] {
		durations[fmt.Sprint(p.Attributes)] = p
	}
	common := []model.Attribute{
		model.Text("http.request.method", "GET"), model.Text("url.scheme", "http"), model.Text("http.route", "/users/{id}"), model.Text("network.protocol.version", "1.1"),
	}
	peer := []model.Attribute{model.Text("ebpf.role", "server"), model.Text("network.protocol.name", "http")}
	good := slices.Concat(common, []model.Attribute{model.Int("http.response.status_code", 200)}, peer)
	bad := slices.Concat(common, []model.Attribute{model.Int("http.response.status_code", 503), model.Text("error.type", "503")}, peer)
	require.Equal(t, map[string]model.Point{
		fmt.Sprint(good): {Attributes: good, Start: start, Histogram: &model.Histogram{
			Count: 2, Sum: 0.005 + 0.006, Min: 0.005, Max: 0.006, Buckets: []uint64{1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		}},
		fmt.Sprint(bad): {Attributes: bad, Start: start, Histogram: &model.Histogram{
			Count: 1, Sum: 20, Min: 20, Max: 20, Buckets: []uint64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
		}},
	}, durations, "the request that was not seen to end has no duration")
	var whole float64
	for _, p := range points["ebpf.http.server.request.size"] {
		whole += p.Histogram.Sum
	}
	require.EqualValues(t, 400, whole)
	client := totals.Metrics(start, l7.RoleClient)
	require.Len(t, client, 1)
	require.Same(t, other, client[0].Process)
	require.Contains(t, client[0].Metrics[len(client[0].Metrics)-1].Points[0].Attributes, model.Text("server.address", "192.0.2.1"))
	require.Contains(t, client[0].Metrics[len(client[0].Metrics)-1].Points[0].Attributes, model.Int("server.port", 80))
}

// durations returns the durations of one process by status: their number, and their sum in seconds.
func durations(t *testing.T, totals *Totals) map[int64]model.Histogram {
	t.Helper()
	all := map[int64]model.Histogram{}
	exported := totals.Metrics(time.Now(), l7.RoleUnknown)
	require.LessOrEqual(t, len(exported), 1, "a process is exported once")
	for _, m := range exported {
		for _, metric := range m.Metrics {
			for _, p := range metric.Points {
				for _, a := range p.Attributes {
					if metric.Name == "http.server.request.duration" && a.Key == "http.response.status_code" {
						all[a.Value.Int] = *p.Histogram
					}
				}
			}
		}
	}
	return all
}

// TestProcessesShareSeries checks that what a process did before it executed the same program is exported with what it does now, in the same
// series, and stays when the old subject is dropped; and that its series are dropped with the process.
func TestProcessesShareSeries(t *testing.T) {
	totals := NewTotals(Redaction{})
	before, now := observe.SubjectKey{PID: 1, ExecID: 1}, observe.SubjectKey{PID: 1, ExecID: 2}
	who := map[observe.SubjectKey]*model.Process{before: {ServiceName: "shop"}, now: {ServiceName: "shop", Arguments: []string{"again"}}}
	totals.Add(Connection{Subject: before}, exchange(l7.RoleServer, "/", 200, 1))
	named(totals, who)
	require.EqualValues(t, 1, durations(t, totals)[200].Count)
	totals.Add(Connection{Subject: now}, exchange(l7.RoleServer, "/", 200, 3))
	totals.Add(Connection{Subject: now}, exchange(l7.RoleServer, "/", 404, 2))
	named(totals, who)
	want := map[int64]model.Histogram{
		200: {Count: 2, Sum: 0.001 + 0.003, Min: 0.001, Max: 0.003, Buckets: append([]uint64{2}, make([]uint64, len(l7.DurationBounds))...)},
		404: {Count: 1, Sum: 0.002, Min: 0.002, Max: 0.002, Buckets: append([]uint64{1}, make([]uint64, len(l7.DurationBounds))...)},
	}
	require.Equal(t, want, durations(t, totals))
	require.Equal(t, 2, totals.series)
	over := func(k observe.SubjectKey) (bool, bool, error) { return true, k == now, nil }
	for range idleAfterEnd + 1 {
		require.NoError(t, totals.LeaveOut(over))
	}
	require.NotContains(t, totals.subjects, before)
	require.Equal(t, want, durations(t, totals))
	require.NoError(t, totals.LeaveOut(func(observe.SubjectKey) (bool, bool, error) { return false, true, nil }))
	require.Empty(t, durations(t, totals))
	require.Zero(t, totals.series)
	require.Empty(t, totals.byResource)
}

// TestRequestsWaitForTheDecision checks that requests of an undecided process are exported after the decision, and counted one by one as lost
// if there is none.
func TestRequestsWaitForTheDecision(t *testing.T) {
	totals, late, never := NewTotals(Redaction{}), observe.SubjectKey{PID: 1}, observe.SubjectKey{PID: 2}
	now := time.Now()
	totals.now = func() time.Time { return now }
	for n := range 3 {
		totals.Add(Connection{Subject: late}, exchange(l7.RoleServer, "/", 200, 1))
		totals.Add(Connection{Subject: never}, exchange(l7.RoleServer, "/", 200+n, 1))
	}
	undecided := func(observe.SubjectKey) (*model.Process, bool) { return nil, false }
	totals.Name(undecided)
	now = now.Add(undecidedFor / 2)
	totals.Name(undecided)
	require.True(t, totals.Waits(late))
	totals.Name(func(k observe.SubjectKey) (*model.Process, bool) { return &model.Process{}, k == late })
	require.False(t, totals.Waits(late))
	require.NotNil(t, totals.Process(late))
	require.Zero(t, totals.Undecided())
	now = now.Add(undecidedFor)
	totals.Name(undecided)
	require.False(t, totals.Waits(never))
	require.Equal(t, uint64(3), totals.Undecided())
	totals.Name(undecided)
	require.Equal(t, uint64(3), totals.Undecided())
}

// TestOutOfScopeIsAskedOnce checks that the scope of a process that is out of scope is not asked for again, and that the process does not
// count; after it was dropped it may have come into scope.
func TestOutOfScopeIsAskedOnce(t *testing.T) {
	totals, subject, asked := NewTotals(Redaction{}), observe.SubjectKey{PID: 1}, 0
	who := func(observe.SubjectKey) (*model.Process, bool) { asked++; return nil, true }
	for range 3 {
		totals.Add(Connection{Subject: subject}, exchange(l7.RoleServer, "/", 200, 1))
		totals.Name(who)
	}
	require.Equal(t, 1, asked)
	counted, _ := totals.Exchanges()
	require.EqualValues(t, 1, counted, "before it was asked about")
	require.Zero(t, totals.series)
	require.NoError(t, totals.LeaveOut(func(observe.SubjectKey) (bool, bool, error) { return true, true, nil }))
	totals.Add(Connection{Subject: subject}, exchange(l7.RoleServer, "/", 200, 1))
	totals.Name(func(observe.SubjectKey) (*model.Process, bool) { return &model.Process{}, true })
	require.EqualValues(t, 1, durations(t, totals)[200].Count)
}

// TestDuration checks which durations are known.
func TestDuration(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*l7.Exchange)
		want   time.Duration
		known  bool
	}{
		"whole":                          {func(*l7.Exchange) {}, 7 * time.Millisecond, true},
		"the connection ended within it": {func(e *l7.Exchange) { e.Response.Ended, e.Outcome = false, l7.Aborted }, 7 * time.Millisecond, true},
		"its end is missing":             {func(e *l7.Exchange) { e.Response.Ended, e.Outcome = false, l7.Lost }, 0, false},
		"no response":                    {func(e *l7.Exchange) { e.Response, e.Outcome = l7.Side{}, l7.Unanswered }, 0, false},
		"it was given up": {func(e *l7.Exchange) {
			e.Response, e.Outcome, e.Ended = l7.Side{}, l7.Unanswered, e.Request.First+9e6
		}, 9 * time.Millisecond, true},
		"it was given up within its response": {func(e *l7.Exchange) {
			e.Response.Ended, e.Outcome, e.Ended = false, l7.Aborted, e.Request.First+9e6
		}, 9 * time.Millisecond, true},
		"its beginning was not seen":              {func(e *l7.Exchange) { e.Request.First = 0 }, 0, false},
		"the connection ended within the request": {func(e *l7.Exchange) { e.Response, e.Outcome = l7.Side{}, l7.Aborted }, 0, false},
		"its request was not seen":                {func(e *l7.Exchange) { e.Request = l7.Side{} }, 0, false},
		"clocks of two CPUs":                      {func(e *l7.Exchange) { e.Response.Last = e.Request.First - 1 }, 0, true},
	} {
		e := exchange(l7.RoleServer, "/", 200, 7)
		c.change(e)
		got, known := Duration(e)
		require.Equal(t, c.known, known, name)
		require.Equal(t, c.want, time.Duration(got), name)
	}
}

// TestTotalsAreBounded checks that routes and series have a bound, that nothing is lost by it, and that idle series end.
func TestTotalsAreBounded(t *testing.T) {
	totals := NewTotals(Redaction{})
	who := map[observe.SubjectKey]*model.Process{}
	requests := 0
	for pid := range uint32(60) {
		subject := observe.SubjectKey{PID: pid}
		who[subject] = &model.Process{ID: model.ProcessID{PID: pid}}
		for i := range 2 * maxRoutes {
			totals.Add(Connection{Subject: subject}, exchange(l7.RoleServer, fmt.Sprintf("/page-%c%c", 'a'+i/26, 'a'+i%26), 200, 1))
			requests++
		}
	}
	named(totals, who)
	count := func() (requests uint64, points int) {
		for _, m := range totals.Metrics(time.Now(), l7.RoleUnknown) {
			for _, metric := range m.Metrics {
				if metric.Name == "http.server.request.duration" {
					points += len(metric.Points)
					for _, p := range metric.Points {
						requests += p.Histogram.Count
					}
				}
			}
		}
		return requests, points
	}
	exported, points := count()
	require.EqualValues(t, requests, exported)
	require.LessOrEqual(t, points, maxSeries+60)
	require.Greater(t, points, maxSeries/2)
	_, overflown := totals.Exchanges()
	require.Positive(t, overflown)
	require.EqualValues(t, 60*maxRoutes, totals.Unnamed().Texts["request_routes_full"])
	stay := func(observe.SubjectKey) (bool, bool, error) { return true, true, nil }
	for range idleReports {
		require.NoError(t, totals.LeaveOut(stay))
	}
	require.NotZero(t, totals.series)
	require.NoError(t, totals.LeaveOut(stay))
	require.Zero(t, totals.series)
	require.Empty(t, totals.subjects)
	require.Empty(t, totals.byResource)
}

// TestEndedSeriesCountsAnew checks that a series that counted last and has ended does not count the next request of its kind.
func TestEndedSeriesCountsAnew(t *testing.T) {
	totals := NewTotals(Redaction{})
	subject := observe.SubjectKey{PID: 1}
	who := map[observe.SubjectKey]*model.Process{subject: {ID: model.ProcessID{PID: 1}}}
	stay := func(observe.SubjectKey) (bool, bool, error) { return true, true, nil }
	ask := func(status int) { totals.Add(Connection{Subject: subject}, exchange(l7.RoleServer, "/", status, 1)) }
	ask(200)
	ask(404)
	ask(404)
	named(totals, who)
	for range idleReports + 1 {
		totals.subjects[subject].idle = 0 // the process is busy with requests of other series
		require.NoError(t, totals.LeaveOut(stay))
	}
	require.Zero(t, totals.series)
	ask(404)
	require.Equal(t, 1, totals.series)
	require.NotEmpty(t, totals.Metrics(time.Now(), l7.RoleUnknown), "it is exported")
}

// TestSeriesEnd checks that a client that connects in its life to more servers than the bound of series has one for each of them at its time,
// since those of servers that were not asked for long end; that one process leaves series for others; and that a series that counts again
// starts anew.
func TestSeriesEnd(t *testing.T) {
	start := time.Unix(1000, 0)
	totals := NewTotals(Redaction{})
	totals.now = func() time.Time { return start }
	client, other := observe.SubjectKey{PID: 1}, observe.SubjectKey{PID: 2}
	who := map[observe.SubjectKey]*model.Process{client: {ID: model.ProcessID{PID: 1}}, other: {ID: model.ProcessID{PID: 2}}}
	stay := func(observe.SubjectKey) (bool, bool, error) { return true, true, nil }
	server := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 80)
	}
	ask := func(i int) {
		totals.Add(Connection{Subject: client, Peer: server(i)}, exchange(l7.RoleClient, "/metrics", 200, 1))
	}
	points := func(of observe.SubjectKey) (list []model.Point) {
		for _, m := range totals.Metrics(start, l7.RoleUnknown) {
			for _, metric := range m.Metrics {
				if m.Process == who[of] && metric.Name == "http.client.request.duration" {
					list = append(list, metric.Points...)
				}
			}
		}
		return list
	}
	const perReport = 10
	met := 0
	for met < 2*maxSeries {
		for range perReport {
			ask(met)
			met++
		}
		ask(0) // is asked all the time
		named(totals, who)
		require.NoError(t, totals.LeaveOut(stay))
	}
	_, overflown := totals.Exchanges()
	require.Zero(t, overflown)
	exported := points(client)
	require.Len(t, exported, perReport*idleReports+1, "those of the last reports, and the one that is asked all the time")
	for _, p := range exported {
		require.NotContains(t, values(p.Attributes), "otel.metric.overflow")
		if values(p.Attributes)["server.address"] == "10.0.0.0" {
			require.EqualValues(t, 2*maxSeries/perReport+2, p.Histogram.Count)
		}
	}
	require.Len(t, exported, totals.series)

	start = start.Add(time.Hour)
	ask(1)
	for _, p := range points(client) {
		if values(p.Attributes)["server.address"] == "10.0.0.1" {
			require.EqualValues(t, 1, p.Histogram.Count)
			require.Equal(t, start, p.Start)
		}
	}

	for i := range 2 * maxSeries {
		ask(i)
	}
	_, overflown = totals.Exchanges()
	require.Positive(t, overflown)
	totals.Add(Connection{Subject: other, Peer: server(1)}, exchange(l7.RoleClient, "/", 200, 1))
	named(totals, who)
	require.Len(t, points(client), maxOfProcess+1)
	require.Len(t, points(other), 1)
	require.Contains(t, values(points(other)[0].Attributes), "server.address", "one process has left room")
}

// TestPathScannersLeaveRoutes checks that requests for paths that do not exist, whatever a server answers, leave routes for paths that exist.
func TestPathScannersLeaveRoutes(t *testing.T) {
	for status, found := range map[int]bool{
		0: false, 301: false, 302: false, 308: false, 400: false, 401: false, 403: false, 404: false, 405: false, 410: false, 429: false,
		101: true, 200: true, 204: true, 206: true, 304: true, 500: true, 503: true,
	} {
		totals, subject := NewTotals(Redaction{}), observe.SubjectKey{PID: 1}
		for i := range 2 * maxRoutes {
			totals.Add(Connection{Subject: subject}, exchange(l7.RoleServer, fmt.Sprintf("/wp-%c%c", 'a'+i/26, 'a'+i%26), status, 1))
		}
		want := "/real"
		if found {
			want = route.Other
		}
		got, counted := totals.Add(Connection{Subject: subject}, exchange(l7.RoleServer, "/real", 200, 1))
		require.True(t, counted)
		require.Equal(t, want, got, status)
	}
}

// TestUnusedNamesAreDropped checks that routes, methods, names and hosts that are no longer used free their slots.
func TestUnusedNamesAreDropped(t *testing.T) {
	totals, subject := NewTotals(Redaction{}), observe.SubjectKey{PID: 1}
	who := map[observe.SubjectKey]*model.Process{subject: {}}
	stay := func(observe.SubjectKey) (bool, bool, error) { return true, true, nil }
	add := func(text string) {
		totals.Add(Connection{Subject: subject}, exchange(l7.RoleServer, "/"+text, 200, 1))
		totals.Add(Connection{Subject: subject}, callOf(l7.RoleServer, "shop.Orders", text, "OK", 1))
		totals.Add(Connection{Subject: subject}, lookupOf(l7.RoleClient, text+".example.", ""))
		asked := exchange(l7.RoleClient, "/", 200, 1)
		httpexchange.Of(asked).Host = []byte(text + ".shop:80")
		totals.Add(Connection{Subject: subject}, asked)
	}
	seen := func(key string) map[any]bool {
		all := map[any]bool{}
		for _, m := range totals.Metrics(time.Now(), l7.RoleUnknown) {
			for _, metric := range m.Metrics {
				for _, p := range metric.Points {
					all[values(p.Attributes)[key]] = true
				}
			}
		}
		return all
	}
	word := func(i int) string { return "w" + strings.Repeat("x", i) }
	for i := range 2 * maxRoutes {
		add(word(i % 250)) // a path is parsed up to 256 bytes
	}
	add("stays")
	named(totals, who)
	require.False(t, seen("http.route")["/stays"])
	require.False(t, seen("rpc.method")["shop.Orders/stays"])
	require.False(t, seen("dns.question.name")["stays.example"])
	require.False(t, seen("server.address")["stays.shop"])
	for range idleReports {
		totals.Add(Connection{Subject: subject}, exchange(l7.RoleServer, "/"+word(0), 200, 1))
		require.NoError(t, totals.LeaveOut(stay))
	}
	require.NoError(t, totals.LeaveOut(stay))
	add("stays")
	require.True(t, seen("http.route")["/stays"])
	require.True(t, seen("http.route")["/"+word(0)])
	require.False(t, seen("http.route")["/"+word(1)])
	require.True(t, seen("rpc.method")["shop.Orders/stays"])
	require.True(t, seen("dns.question.name")["stays.example"])
	require.True(t, seen("server.address")["stays.shop"])
}

// lookupOf returns a lookup that was answered after 5 ms.
func lookupOf(role l7.Role, name, errorType string) *l7.Exchange {
	return &l7.Exchange{
		Protocol: "dns", Role: role, ErrorType: errorType,
		Request: l7.Side{Known: true, Ended: true, First: 1e6, Last: 1e6}, Response: l7.Side{Known: true, Ended: true, Last: 6e6},
		Operation: &dns.Exchange{Questions: []dns.Question{{Name: []byte(name)}}},
	}
}

// TestLookups checks that lookups of clients are exported by name and error, and that names have a bound.
func TestLookups(t *testing.T) {
	totals, subject := NewTotals(Redaction{}), observe.SubjectKey{PID: 1}
	for _, e := range []*l7.Exchange{
		lookupOf(l7.RoleClient, "a.example.", ""), lookupOf(l7.RoleClient, "a.example.", ""), lookupOf(l7.RoleClient, "a.example.", "SERVFAIL"),
		lookupOf(l7.RoleClient, ".", ""), lookupOf(l7.RoleServer, "served.example.", ""), {Role: l7.RoleClient, Request: l7.Side{Known: true}, Operation: &dns.Exchange{}},
	} {
		totals.Add(Connection{Subject: subject}, e)
	}
	for i := range maxNames {
		totals.Add(Connection{Subject: subject}, lookupOf(l7.RoleClient, fmt.Sprintf("n%d.example.", i), ""))
	}
	named(totals, map[observe.SubjectKey]*model.Process{subject: {}})
	exported := totals.Metrics(time.Now(), l7.RoleUnknown)
	require.Len(t, exported, 1)
	require.Len(t, exported[0].Metrics, 1)
	require.Equal(t, "dns.lookup.duration", exported[0].Metrics[0].Name)
	got := map[string]uint64{}
	for _, p := range exported[0].Metrics[0].Points {
		got[fmt.Sprint(values(p.Attributes))] = p.Histogram.Count
	}
	require.Len(t, got, maxNames+2)
	for key, n := range map[string]uint64{
		"map[dns.question.name:a.example ebpf.role:client network.protocol.name:dns]":                     2,
		"map[dns.question.name:a.example ebpf.role:client error.type:SERVFAIL network.protocol.name:dns]": 1,
		"map[dns.question.name:. ebpf.role:client network.protocol.name:dns]":                             1, "map[otel.metric.overflow:true]": 2,
	} {
		require.Equal(t, n, got[key], key)
	}
	require.Empty(t, totals.Metrics(time.Now(), l7.RoleServer))
	require.Equal(t, l7.Unnamed{Texts: map[string]uint64{"lookup_names_full": 2}}, totals.Unnamed())
}

func BenchmarkAdd(b *testing.B) {
	totals, e := NewTotals(Redaction{}), exchange(l7.RoleServer, "/users/18", 200, 1)
	b.ReportAllocs()
	for b.Loop() {
		totals.Add(Connection{Subject: observe.SubjectKey{PID: 1}}, e)
	}
}

// callOf returns a gRPC call that ended with a status.
func callOf(role l7.Role, service, method, status string, ms int) *l7.Exchange {
	path := "/" + service + "/" + method
	if service == l7.UnknownText {
		path = l7.UnknownText
	}
	e := exchange(role, path, 200, ms)
	h := httpexchange.Of(e)
	h.Method, h.Version = "POST", "2"
	e.Operation = &grpccall.Call{Exchange: h, Service: []byte(service), Name: []byte(method), Status: status}
	if status != "OK" {
		e.ErrorType = status
	}
	return e
}

// TestCalls checks that calls are exported by method and status, and only as calls, and that methods have a bound.
func TestCalls(t *testing.T) {
	totals := NewTotals(Redaction{})
	one := observe.SubjectKey{PID: 1}
	server := netip.MustParseAddrPort("192.0.2.1:50051")
	totals.Add(Connection{Subject: one, Peer: server, TLS: true}, callOf(l7.RoleClient, "shop.Orders", "Get", "OK", 20))
	route, counted := totals.Add(Connection{Subject: one}, callOf(l7.RoleServer, "shop.Orders", "Get", "NOT_FOUND", 5))
	require.True(t, counted)
	require.Empty(t, route)
	totals.Add(Connection{Subject: one}, callOf(l7.RoleServer, l7.UnknownText, l7.UnknownText, "OK", 5))
	named(totals, map[observe.SubjectKey]*model.Process{one: {}})
	got := map[string][]map[string]any{}
	for _, m := range totals.Metrics(time.Now(), l7.RoleUnknown)[0].Metrics {
		for _, p := range m.Points {
			require.EqualValues(t, 1, p.Histogram.Count)
			got[m.Name] = append(got[m.Name], values(p.Attributes))
		}
	}
	require.ElementsMatch(t, got["rpc.server.call.duration"], []map[string]any{
		{"rpc.system.name": "grpc", "rpc.method": "shop.Orders/Get", "rpc.response.status_code": "NOT_FOUND", "error.type": "NOT_FOUND", "ebpf.role": "server", "network.protocol.name": "http"},
		{"rpc.system.name": "grpc", "rpc.method": "*", "rpc.response.status_code": "OK", "ebpf.role": "server", "network.protocol.name": "http"},
	})
	require.Equal(t, got["rpc.client.call.duration"], []map[string]any{{
		"rpc.system.name": "grpc", "rpc.method": "shop.Orders/Get", "rpc.response.status_code": "OK", "ebpf.tls": true,
		"server.address": "192.0.2.1", "server.port": int64(50051), "ebpf.role": "client", "network.protocol.name": "http",
	}})
	require.Len(t, got, 2, "they are not exported as requests again")

	for i := range 2 * maxMethods {
		totals.Add(Connection{Subject: one}, callOf(l7.RoleServer, "shop.Orders", fmt.Sprint(i), "OK", 1))
	}
	methods := map[any]bool{}
	for _, m := range totals.Metrics(time.Now(), l7.RoleServer)[0].Metrics {
		for _, p := range m.Points {
			methods[values(p.Attributes)["rpc.method"]] = true
		}
	}
	require.Len(t, methods, maxMethods+1)
	require.Equal(t, l7.Unnamed{Texts: map[string]uint64{"call_methods_full": maxMethods + 2}}, totals.Unnamed(), "of the three before two have a name, one of them that of what is not known")
	require.Contains(t, methods, rfc9110.OtherMethod)
}

// TestServersAreNamedByHost checks that a client's requests are exported by the host that they name, and by its address if they name none, if
// hosts are redacted and if there are too many.
func TestServersAreNamedByHost(t *testing.T) {
	type server struct {
		address any
		port    any
	}
	peer := netip.MustParseAddrPort("192.0.2.1:8443")
	byPeer := server{"192.0.2.1", int64(8443)}
	asked := func(totals *Totals, hosts ...string) map[server]uint64 {
		one := observe.SubjectKey{PID: 1}
		for _, host := range hosts {
			e := exchange(l7.RoleClient, "/users/18", 200, 1)
			httpexchange.Of(e).Host = []byte(host)
			_, counted := totals.Add(Connection{Subject: one, Peer: peer}, e)
			require.True(t, counted)
		}
		named(totals, map[observe.SubjectKey]*model.Process{one: {}})
		got := map[server]uint64{}
		for _, m := range totals.Metrics(time.Now(), l7.RoleClient)[0].Metrics {
			for _, p := range m.Points {
				if m.Name == "http.client.request.duration" {
					list := values(p.Attributes)
					got[server{list["server.address"], list["server.port"]}] += p.Histogram.Count
				}
			}
		}
		return got
	}
	hosts := []string{"shop.example", "shop.example", "shop.example:80", "[2001:db8::1]:81", "", strings.Repeat("x", l7.LongestHost+1)}
	require.Equal(t, map[server]uint64{
		{"shop.example", int64(8443)}: 2, {"shop.example", int64(80)}: 1, {"2001:db8::1", int64(81)}: 1, byPeer: 2,
	}, asked(NewTotals(Redaction{}), hosts...))
	require.Equal(t, map[server]uint64{byPeer: uint64(len(hosts))}, asked(NewTotals(Redaction{Headers: []string{"host"}}), hosts...))
	hosts = nil
	for i := range l7.MostHosts + 5 {
		hosts = append(hosts, fmt.Sprintf("shop-%d.example", i))
	}
	got := asked(NewTotals(Redaction{}), hosts...)
	require.Len(t, got, l7.MostHosts+1)
	require.EqualValues(t, 5, got[byPeer])
}

// TestCallsOneByOne checks what a call's log has in addition to that of an HTTP request.
func TestCallsOneByOne(t *testing.T) {
	j := NewJournal(JournalConfig{Which: AllRequests, Slow: time.Second, Bytes: plenty})
	j.Add(Connection{Subject: someone}, callOf(l7.RoleServer, "shop.Orders", "Get", "INTERNAL", 5), "", wall)
	taken := j.Take(AsLog)
	require.Len(t, taken, 1)
	log := taken[0].Log(&Room{}, nil, time.Time{})
	require.Equal(t, model.Error, log.Severity)
	require.Equal(t, map[string]any{
		"ebpf.role": "server", "http.request.method": "POST", "http.response.status_code": int64(200), "error.type": "INTERNAL",
		"ebpf.request.duration": 0.005, "rpc.system.name": "grpc", "rpc.method": "shop.Orders/Get", "rpc.response.status_code": "INTERNAL",
		"network.protocol.name": "http", "network.protocol.version": "2", "url.scheme": "http", "url.path": "/shop.Orders/Get",
		"http.request.body.size": int64(0), "http.response.body.size": int64(900), "http.request.size": int64(100), "http.response.size": int64(1000),
	}, values(log.Attributes))
}

// TestServiceInstance checks that the counts of the processes of a service instance are added up and stay after they exit, until nothing was
// counted for long: a series that comes again starts anew. The requests themselves stay those of their processes.
func TestServiceInstance(t *testing.T) {
	totals := NewTotals(Redaction{})
	totals.ByInstance()
	now := time.Unix(1000, 0)
	totals.now = func() time.Time { return now }
	over := func(observe.SubjectKey) (bool, bool, error) { return true, false, nil } // exited, as far as is known
	count := func() (n uint64, start time.Time, process *model.Process) {
		for _, m := range totals.Metrics(now, l7.RoleUnknown) {
			require.Nil(t, process, "one resource")
			process = m.Process
			for _, metric := range m.Metrics {
				if metric.Descriptor == httpexchange.Semantics.Metrics[l7.RoleServer].Duration {
					require.Len(t, metric.Points, 1)
					n, start = metric.Points[0].Histogram.Count, metric.Points[0].Start
				}
			}
		}
		return n, start, process
	}
	for i := range 10 {
		subject := observe.SubjectKey{PID: uint32(i) + 1}
		known := &model.Process{ID: model.ProcessID{PID: subject.PID}, Executable: "/bin/shop", ServiceName: "shop", ServiceInstanceID: "a", ContainerID: "c"}
		totals.Add(Connection{Subject: subject}, exchange(l7.RoleServer, "/pay", 200, 1))
		named(totals, map[observe.SubjectKey]*model.Process{subject: known})
		require.Same(t, known, totals.Process(subject))
		n, start, process := count()
		require.EqualValues(t, i+1, n)
		require.Equal(t, time.Unix(1000, 0), start)
		require.Equal(t, known.Instance(), process)
		for range idleAfterEnd + 1 {
			require.NoError(t, totals.LeaveOut(over))
		}
		require.Empty(t, totals.subjects)
		now = now.Add(time.Minute)
	}
	for range idleReports {
		require.NoError(t, totals.LeaveOut(over))
	}
	require.Empty(t, totals.Metrics(now, l7.RoleUnknown))
	require.Empty(t, totals.byResource)
	require.Zero(t, totals.Bytes())
	require.EqualValues(t, 1, totals.Retired())
	totals.Add(Connection{Subject: observe.SubjectKey{PID: 1}}, exchange(l7.RoleServer, "/pay", 200, 1))
	named(totals, map[observe.SubjectKey]*model.Process{{PID: 1}: {ServiceName: "shop"}})
	n, start, _ := count()
	require.EqualValues(t, 1, n)
	require.Equal(t, now, start)
}

// TestUnattributed checks that requests whose process is unknown count as lost if there is a metric for them.
func TestUnattributed(t *testing.T) {
	totals := NewTotals(Redaction{})
	for _, e := range []*l7.Exchange{
		exchange(l7.RoleServer, "/", 200, 1), exchange(l7.RoleClient, "/", 200, 1), lookupOf(l7.RoleClient, "shop.example.", ""),
		exchange(l7.RoleUnknown, "/", 200, 1), lookupOf(l7.RoleServer, "shop.example.", ""), {},
	} {
		totals.AddUnattributed(e)
	}
	require.EqualValues(t, 3, totals.Unattributed())
}

// TestUserinfoInRoutes checks that no route has the userinfo of a URL.
func TestUserinfoInRoutes(t *testing.T) {
	for _, path := range []string{"/proxy/http://alice:SECRET@shop.example/a", "//alice:SECRET@shop.example/a", "/npm//@scope/pkg", "/~alice@example/a"} {
		route, counted := NewTotals(Redaction{}).Add(Connection{}, exchange(l7.RoleServer, path, 200, 1))
		require.True(t, counted)
		require.NotContains(t, route, "SECRET")
	}
}
