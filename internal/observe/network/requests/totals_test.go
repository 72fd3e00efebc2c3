// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// exchange is a request of 100 bytes that was answered with 1,000 after some milliseconds.
func exchange(role l7.Role, path string, status, ms int) *l7.Exchange {
	e := &l7.Exchange{
		Protocol: "http", Role: role,
		Request:  l7.Side{Known: true, Ended: true, First: 5e9, Last: 5e9, Body: 0, Whole: 100},
		Response: l7.Side{Known: true, Ended: true, First: 5e9, Last: 5e9 + int64(ms)*1e6, Body: 900, Whole: 1000},
		HTTP:     &l7.HTTP{Method: "GET", Path: []byte(path), Version: "1.1", Status: status},
	}
	if status >= 500 {
		e.ErrorType = fmt.Sprint(status)
	}
	return e
}

func named(t *Totals, processes map[observe.SubjectKey]*model.Process) {
	t.Name(func(k observe.SubjectKey) *model.Process { return processes[k] })
}

func TestTotals(t *testing.T) {
	start := time.Unix(1000, 0)
	totals := NewTotals()
	totals.now = func() time.Time { return start }
	one, two := observe.SubjectKey{PID: 1}, observe.SubjectKey{PID: 2}
	server := netip.MustParseAddrPort("192.0.2.1:80")
	totals.Add(Whom{Subject: one, Server: server}, exchange(l7.RoleServer, "/users/17", 200, 5))
	totals.Add(Whom{Subject: one, Server: server}, exchange(l7.RoleServer, "/users/18", 200, 6))
	totals.Add(Whom{Subject: one}, exchange(l7.RoleServer, "/users/18", 503, 20_000))
	totals.Add(Whom{Subject: two, Server: server}, exchange(l7.RoleClient, "/users/18", 200, 1))
	unanswered := exchange(l7.RoleServer, "/lost", 0, 0)
	unanswered.Response, unanswered.Outcome, unanswered.ErrorType = l7.Side{}, l7.Unanswered, l7.ErrorNoResponse
	totals.Add(Whom{Subject: one}, unanswered)
	totals.Add(Whom{Subject: one}, &l7.Exchange{Role: l7.RoleServer, DNS: &l7.DNS{}}) // not HTTP
	counted, overflown := totals.Exchanges()
	require.EqualValues(t, 5, counted)
	require.Zero(t, overflown)

	require.Empty(t, totals.Metrics(start, l7.RoleUnknown), "nobody has said whose they are")
	process := &model.Process{}
	named(totals, map[observe.SubjectKey]*model.Process{one: process}) // the other is out of scope
	told := totals.Metrics(start.Add(time.Second), l7.RoleUnknown)
	require.Len(t, told, 1)
	require.Same(t, process, told[0].Process)
	points := map[string][]model.Point{}
	for _, m := range told[0].Metrics {
		points[m.Name] = m.Points
	}
	require.Len(t, points, 5)
	durations := map[string]model.Point{}
	for _, p := range points["http.server.request.duration"] {
		durations[fmt.Sprint(p.Attributes)] = p
	}
	common := []model.Attribute{
		model.Text("http.request.method", "GET"), model.Text("url.scheme", "http"), model.Text("http.route", "/users/{id}"), model.Text("network.protocol.version", "1.1"),
	}
	good := append(append([]model.Attribute(nil), common...), model.Int("http.response.status_code", 200))
	bad := append(append([]model.Attribute(nil), common...), model.Int("http.response.status_code", 503), model.Text("error.type", "503"))
	require.Equal(t, map[string]model.Point{
		fmt.Sprint(good): {Attributes: good, Start: start, Histogram: &model.Histogram{
			Count: 2, Sum: 0.005 + 0.006, Min: 0.005, Max: 0.006, Buckets: []uint64{1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		}},
		fmt.Sprint(bad): {Attributes: bad, Start: start, Histogram: &model.Histogram{
			Count: 1, Sum: 20, Min: 20, Max: 20, Buckets: []uint64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
		}},
	}, durations, "of a request without a response nobody knows how long it took")
	var whole float64
	for _, p := range points["ebpf.http.server.request.size"] {
		whole += p.Histogram.Sum
	}
	require.EqualValues(t, 400, whole)
	require.Empty(t, totals.Metrics(start, l7.RoleClient), "the other role")

	named(totals, map[observe.SubjectKey]*model.Process{one: process, two: {}})
	client := totals.Metrics(start, l7.RoleClient)
	require.Len(t, client, 1)
	require.Contains(t, client[0].Metrics[len(client[0].Metrics)-1].Points[0].Attributes, model.Text("server.address", "192.0.2.1"))
	require.Contains(t, client[0].Metrics[len(client[0].Metrics)-1].Points[0].Attributes, model.Int("server.port", 80))
}

// TestTotalsAreBounded holds that routes and series have a bound, that nothing is lost by it, and that what is quiet leaves.
func TestTotalsAreBounded(t *testing.T) {
	totals := NewTotals()
	who := map[observe.SubjectKey]*model.Process{}
	requests := 0
	for pid := range uint32(60) {
		subject := observe.SubjectKey{PID: pid}
		who[subject] = &model.Process{}
		for i := range 2 * maxRoutes {
			totals.Add(Whom{Subject: subject}, exchange(l7.RoleServer, fmt.Sprintf("/page-%c%c", 'a'+i/26, 'a'+i%26), 200, 1))
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
	told, points := count()
	require.EqualValues(t, requests, told)
	require.LessOrEqual(t, points, maxSeries+60)
	require.Greater(t, points, maxSeries/2)
	_, overflown := totals.Exchanges()
	require.Positive(t, overflown)
	for range idleReports - 1 {
		totals.Metrics(time.Now(), l7.RoleClient)
	}
	require.NotZero(t, totals.series)
	totals.Metrics(time.Now(), l7.RoleClient)
	require.Zero(t, totals.series)
	require.Empty(t, totals.processes)
}

func BenchmarkAdd(b *testing.B) {
	totals, e := NewTotals(), exchange(l7.RoleServer, "/users/18", 200, 1)
	b.ReportAllocs()
	for b.Loop() {
		totals.Add(Whom{Subject: observe.SubjectKey{PID: 1}}, e)
	}
}
