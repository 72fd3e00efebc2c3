// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// ownHost has only this process in scope: others on the host make requests, too.
type ownHost struct{ observe.Host }

func (h ownHost) Subject(key observe.SubjectKey, comm string) (observe.Subject, observe.Unknown) {
	if key.PID != uint32(os.Getpid()) {
		return nil, ""
	}
	return h.Host.Subject(key, comm)
}

// leveled is an observer of this process, and its counts before.
type leveled struct {
	*watching
	before map[string]uint64
}

func watchLevels(t *testing.T, by *way) *leveled {
	t.Helper()
	w := watch(t, requestConfig(), by.change)
	w.table.host = ownHost{w.table.host}
	l := &leveled{w, map[string]uint64{}}
	l.since()
	return l
}

// since returns what was counted of both sides since the last call: requests that were captured, by status, and losses.
func (l *leveled) since() map[string]uint64 {
	l.t.Helper()
	l.settle()
	now := map[string]uint64{}
	for _, side := range []string{"server", "client"} {
		for key, n := range counts(l.requestPoints("http." + side + ".request.duration")) {
			now[side+" "+key] = n
		}
	}
	l.nameRequests()
	for _, reason := range []string{connectionsUnparsed, requestAbandoned} {
		now[reason] = l.loss(reason)
	}
	grown := map[string]uint64{}
	for key, n := range now {
		if n > l.before[key] {
			grown[key] = n - l.before[key]
		}
	}
	l.before = now
	return grown
}

// askInTurn makes sequential requests.
func askInTurn(t *testing.T, client *http.Client, url string, times int) {
	t.Helper()
	for range times {
		response, err := client.Get(url)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
	}
}

func once() *http.Client { return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} }

// TestShareOfConnections checks that with each level requests of half as many connections are captured, that all others are counted, each
// once, and that all requests of captured connections are reported. Both sides of each connection are captured, each separately.
func TestShareOfConnections(t *testing.T) {
	const connections = 256
	runEachWay(t, func(t *testing.T, by *way) {
		server := httptest.NewServer(answering(0))
		defer server.Close()
		l := watchLevels(t, by)
		for _, level := range []int{0, 1, 3, unparsedLevel} {
			require.NoError(t, l.SetLevel(level))
			askInTurn(t, once(), server.URL+"/ok", connections)
			got := l.since()
			captured := got["server GET 200"] + got["client GET 200"]
			t.Logf("level %d: %v", level, got)
			if l.missed() > 0 {
				t.Log("the kernel did not run all programs: which connections were seen is not known")
				continue
			}
			require.EqualValues(t, 2*connections, captured+got[connectionsUnparsed], "level %d: %v", level, got)
			require.Zero(t, got[requestAbandoned], "level %d", level)
			switch level {
			case 0:
				require.EqualValues(t, 2*connections, captured)
			case unparsedLevel:
				require.Zero(t, captured)
			default: // five times the deviation of so many draws
				share := 1 / float64(int(1)<<level)
				require.InDelta(t, 2*connections*share, float64(captured), 5*22.7*share*1.5, "level %d", level)
			}
		}
	})
}

// TestOpenConnectionsAtLevels checks that an open connection is given up with its next request, ends cleanly, and is followed again from the
// next request on once the level allows it.
func TestOpenConnectionsAtLevels(t *testing.T) {
	runEachWay(t, func(t *testing.T, by *way) {
		for name, protocols := range map[string]func(*http.Protocols){
			"http": func(p *http.Protocols) { p.SetHTTP1(true) }, "h2c": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
		} {
			t.Run(name, func(t *testing.T) {
				var spoken http.Protocols
				protocols(&spoken)
				server := httptest.NewUnstartedServer(answering(0))
				server.Config.Protocols = &spoken
				server.Start()
				defer server.Close()
				client := &http.Client{Transport: &http.Transport{Protocols: &spoken}}
				l := watchLevels(t, by)
				exactly := func(want map[string]uint64, what string) {
					t.Helper()
					got := l.since()
					if l.missed() == 0 {
						require.Equal(t, want, got, what)
					}
				}
				askInTurn(t, client, server.URL+"/ok", 3)
				exactly(map[string]uint64{"server GET 200": 3, "client GET 200": 3}, "as configured")
				require.NoError(t, l.SetLevel(unparsedLevel))
				askInTurn(t, client, server.URL+"/ok", 4)
				exactly(map[string]uint64{connectionsUnparsed: 2}, "given up")
				askInTurn(t, client, server.URL+"/ok", 4)
				exactly(map[string]uint64{}, "counted once")
				require.NoError(t, l.SetLevel(0))
				askInTurn(t, client, server.URL+"/ok", 5)
				if name == "http" { // fields of HTTP/2 refer to what was sent before
					exactly(map[string]uint64{"server GET 200": 5, "client GET 200": 5}, "followed again")
				}
				client.CloseIdleConnections()
				askInTurn(t, client, server.URL+"/ok", 2)
				if name == "http" {
					exactly(map[string]uint64{"server GET 200": 2, "client GET 200": 2}, "another connection")
				}
				client.CloseIdleConnections()
			})
		}
	})
}

// TestRequestsUnderWayAtLevels checks that a request that is under way when its connection is given up is counted as abandoned, on either
// side.
func TestRequestsUnderWayAtLevels(t *testing.T) {
	runEachWay(t, func(t *testing.T, by *way) {
		server := httptest.NewServer(answering(0))
		defer server.Close()
		l := watchLevels(t, by)
		body, more := io.Pipe()
		done := make(chan error, 1)
		client := once()
		go func() {
			response, err := client.Post(server.URL+"/take", "text/plain", body)
			if err == nil {
				err = response.Body.Close()
			}
			done <- err
		}()
		_, err := io.WriteString(more, strings.Repeat("a", 5000))
		require.NoError(t, err)
		l.handed()
		require.NoError(t, l.SetLevel(unparsedLevel))
		_, err = io.WriteString(more, strings.Repeat("b", 5000))
		require.NoError(t, err)
		require.NoError(t, more.Close())
		require.NoError(t, <-done)
		got := l.since()
		if l.missed() == 0 {
			require.Equal(t, map[string]uint64{connectionsUnparsed: 2, requestAbandoned: 2}, got)
		}
	})
}

// TestLevelsOfNetwork checks by how many levels the observation can be reduced, and the effect of each.
func TestLevelsOfNetwork(t *testing.T) {
	for name, c := range map[string]struct {
		config  Config
		effects []string // by level
	}{
		"connections alone": {Config{}, []string{"counts connections"}},
		"requests": {Config{Requests: true}, []string{
			"captures the requests of all connections", "captures the requests of one in 2 connections", "captures the requests of one in 4 connections",
			"captures the requests of one in 8 connections", "captures the requests of one in 16 connections", "captures the requests of one in 32 connections",
			"counts connections and captures no requests but lookups by UDP",
		}},
		"requests that policies watch": {Config{Requests: true, Answered: func(Answer) {}}, []string{
			"captures the requests of all connections", "captures the requests of one in 2 connections", "captures the requests of one in 4 connections",
			"captures the requests of one in 8 connections", "captures the requests of one in 16 connections", "captures the requests of one in 32 connections",
		}},
		"what policies watch alone": {Config{Requests: true, OnlyAnswered: true}, []string{"captures the requests of all connections"}},
	} {
		o := &Observer{config: c.config}
		require.Equal(t, len(c.effects)-1, o.Levels(), name)
		for level, effect := range c.effects {
			o.level = level
			require.Equal(t, effect, o.Effect(), name)
		}
	}
}
