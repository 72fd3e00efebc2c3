// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// onlyHost puts those processes in scope that the test has started.
type onlyHost struct {
	observe.Host
	pids   map[uint32]bool
	others int // how often the scope of other processes was asked for
}

func (h *onlyHost) Subject(key observe.SubjectKey, comm string) (observe.Subject, observe.Unknown) {
	if !h.pids[key.PID] {
		h.others++
		return nil, ""
	}
	return h.Host.Subject(key, comm)
}

// restrictToOwn puts all processes out of scope that are not added to it.
func (w *watching) restrictToOwn() *onlyHost {
	own := &onlyHost{Host: w.table.host, pids: map[uint32]bool{}}
	w.table.host = own
	return own
}

// shortLived runs programs that exit after one request, two at a time, each of which is attached to as soon as it is known. It returns their
// processes.
func shortLived(t *testing.T, w *watching, scope *tlsScope, times int, name string, args ...string) map[uint32]bool {
	t.Helper()
	pids := map[uint32]bool{}
	var mu sync.Mutex
	var together sync.WaitGroup
	for range 2 {
		together.Go(func() {
			for range times / 2 {
				cmd := exec.CommandContext(t.Context(), name, args...)
				cmd.Stdin = strings.NewReader("/short\n")
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				pid := cmd.Process.Pid
				scope.set(pid, true)
				w.Look(uint32(pid))
				mu.Lock()
				pids[uint32(pid)] = true
				mu.Unlock()
				if err := cmd.Wait(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	together.Wait()
	return pids
}

// TestShortLivedTLS checks that of programs that exit after one request through TLS each request is either reported or its connection
// counted.
func TestShortLivedTLS(t *testing.T) {
	runEachWay(t, func(t *testing.T, way *way) {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, bodyBytes)) }))
		defer server.Close()
		_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "https://"), ":")
		config, scope := tlsConfig(t)
		w := watch(t, config, way.change)
		const sure = 3 // requests of a client that was attached to before
		client := speak(t, testbin.Go(t, "testdata/gotls"), "client", port, "1")
		require.Equal(t, "ready", client.line())
		w.attachedTo(scope, goFunctions, client)
		require.Eventually(t, func() bool { return w.tls.attachedAt(uint32(client.PID())) != 0 }, time.Minute, time.Millisecond)
		for range sure {
			require.Equal(t, 1, client.ask("/sure"))
		}
		pids, started := map[uint32]bool{uint32(client.PID()): true}, uint64(sure)
		for _, command := range [][]string{
			{testbin.Go(t, "testdata/gotls"), "client", port, "1"},
			{"curl", "--insecure", "--silent", "--output", "/dev/null", "--http1.1", server.URL + "/ok"},
		} {
			if _, err := exec.LookPath(command[0]); err != nil {
				continue // of guests
			}
			const times = 20
			maps.Copy(pids, shortLived(t, w, scope, times, command[0], command[1:]...))
			started += times
		}
		w.table.host = &onlyHost{Host: w.table.host, pids: pids}
		var seen, counted uint64
		require.Eventually(t, func() bool {
			w.settle()
			seen, counted = w.requestsOf(pids), w.opaqueOfAll()
			return seen+counted >= started
		}, time.Minute, 10*time.Millisecond, "of %d: %v", started, w.Losses())
		require.EqualValues(t, started, seen+counted, "seen %d, counted %d", seen, counted)
		require.GreaterOrEqual(t, seen, uint64(sure))
	})
}

// requestsOf returns how many requests are reported of clients.
func (w *watching) requestsOf(pids map[uint32]bool) (sum uint64) {
	for _, m := range w.last.Metrics {
		if m.Process == nil || !pids[m.Process.ID.PID] {
			continue
		}
		for _, one := range m.Metrics {
			if one.Name != "http.client.request.duration" {
				continue
			}
			for _, p := range one.Points {
				sum += p.Histogram.Count
			}
		}
	}
	return sum
}

// opaqueOfAll returns how many connections are counted as opaque, with any library.
func (w *watching) opaqueOfAll() (sum uint64) {
	for _, reason := range opaqueReasons() {
		sum += w.loss(reason.name)
	}
	return sum
}

// recordTLS records TLS on a connection outside of any call of a library.
func (f *followed) recordTLS(sock uint64) {
	f.at += time.Millisecond
	f.record(&segment{Sock: sock, Kind: uint8(bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_TLS_BEGINS), Began: uint64(f.at), Ended: uint64(f.at)}, nil)
}

// TestLateConnectionsLeave checks that the entry of a late connection is removed with it, also if its end is not seen.
func TestLateConnectionsLeave(t *testing.T) {
	const sock, pid = 1, 1
	for name, leave := range map[string]func(*followed){
		"it is closed":              func(f *followed) { f.recordClose(&segment{Sock: sock}) },
		"memory is short":           func(f *followed) { f.mostConnected = 0; f.relieve() },
		"it is quiet":               func(f *followed) { f.pass(quietFor + time.Minute) },
		"it is closed, not seen":    func(f *followed) { f.slots.items[0].Generation++; f.pass(quietFor + time.Minute) },
		"it began in plaintext":     func(f *followed) { delete(f.streams, streamID{sock: sock}); f.pass(waitsFor + time.Minute) },
		"another has its Unix path": func(f *followed) { f.forget(streamID{sock: sock}, f.streams[streamID{sock: sock}]) },
	} {
		f := followTCP(Config{})
		f.recordTLS(sock)
		f.recordText(sock, l7.Write, requestText)
		f.recordText(sock, l7.Read, responseText)
		require.Len(t, f.late.open, 1)
		leave(f)
		require.Empty(t, f.late.open, name)
	}
	for name, leave := range map[string]func(*followed){
		"the end was seen":           func(f *followed) { f.recordClose(&segment{Sock: sock}) },
		"the series is another's":    func(f *followed) { f.slots.items[0].Generation++; f.pass(quietFor + time.Minute) },
		"nothing was seen for hours": func(f *followed) { f.pass(waitsFor + time.Minute) },
	} {
		f := followTCP(Config{})
		f.recordTLS(sock)
		f.sweep(uint64(f.at))
		require.Len(t, f.late.open, 1)
		leave(f)
		require.Empty(t, f.late.open, name+", and nothing was carried")
	}
}

// TestLateConnectionsAreBounded checks that each late connection without an entry counts, and that there are entries again later.
func TestLateConnectionsAreBounded(t *testing.T) {
	const more = 5
	f := followTCP(Config{})
	for sock := range uint64(maxLate + more) {
		f.recordTLS(1 + sock)
	}
	require.Len(t, f.late.open, maxLate)
	require.EqualValues(t, more, f.lostInAll("connections_full"))
	f.pass(waitsFor + time.Minute)
	f.recordTLS(1)
	require.Len(t, f.late.open, 1)
	require.EqualValues(t, more, f.lostInAll("connections_full"))
}

// TestRequestsLeftOutOfLateConnectionsAreCounted checks that each request and response that a late connection leaves out counts once, whether
// the connection is forgotten or a whole request follows.
func TestRequestsLeftOutOfLateConnectionsAreCounted(t *testing.T) {
	forgotten := func(f *followed) { f.mostConnected = 0; f.relieve() }
	asks := func(f *followed) {
		f.recordText(1, l7.Read, requestText)
		f.recordText(1, l7.Write, responseText)
	}
	for name, then := range map[string]func(*followed){"it is forgotten": forgotten, "a request follows": asks} {
		f := followTCP(Config{})
		f.recordTLS(1)
		f.recordText(1, l7.Write, responseText) // of a request before
		then(f)
		require.EqualValues(t, 1, f.lostInAll("request_unpaired"), "a response: %s", name)
	}
	f := followTCP(Config{})
	f.recordTLS(1)
	f.recordText(1, l7.Read, requestText)
	f.pass(waitsFor + time.Minute) // without its response
	require.EqualValues(t, 1, f.lostInAll("request_unpaired"), "a request")
	f = followTCP(Config{})
	f.recordTLS(1)
	f.recordText(1, l7.Read, requestText)
	forgotten(f)
	require.EqualValues(t, 1, f.lostInAll("connections_full"), "a request")
	require.Zero(t, f.lostInAll("request_unpaired"), "it counts once")
}
