// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
)

// goroutineKey is struct network_tls_key of bpf/include/network_tls.h.
type goroutineKey [24]byte

func (k goroutineKey) pid() int { return int(binary.NativeEndian.Uint32(k[16:])) }

// goroutines returns those of a program that are known to be within a call of Go's TLS.
func (w *watching) goroutines(of process) (keys []goroutineKey) {
	w.t.Helper()
	var key goroutineKey
	var value []byte
	all := w.coll.Maps[bindings.NetworkCaptureMapNetworkTlsGoroutines].Iterate()
	for all.Next(&key, &value) {
		if key.pid() == of.PID() {
			keys = append(keys, key)
		}
	}
	require.NoError(w.t, all.Err())
	return keys
}

// forgetGoroutines deletes the entries of goroutines, as the kernel evicts those that wait longest from a full table: it waits until each of
// the programs has one.
func (w *watching) forgetGoroutines(programs ...process) {
	w.t.Helper()
	allAsleep() // they have left the calls before
	for _, p := range programs {
		require.Eventually(w.t, func() bool { return len(w.goroutines(p)) > 0 }, time.Minute, time.Millisecond, "none of %d waits", p.PID())
	}
	for _, p := range programs {
		for _, key := range w.goroutines(p) {
			if err := w.coll.Maps[bindings.NetworkCaptureMapNetworkTlsGoroutines].Delete(key[:]); err != nil {
				require.ErrorIs(w.t, err, ebpf.ErrKeyNotExist) // it has left the call meanwhile
			}
		}
	}
}

// responses counts the reported statuses of each path, by process.
type responses struct {
	mu     sync.Mutex
	counts map[uint32]map[string]int
}

func (r *responses) listen(c *Config) {
	r.counts = map[uint32]map[string]int{}
	c.exchanged = func(pid uint32, e *l7.Exchange) {
		if httpexchange.Of(e) == nil {
			return // a lookup of another process
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.counts[pid] == nil {
			r.counts[pid] = map[string]int{}
		}
		r.counts[pid][fmt.Sprintf("%s %d", httpexchange.Of(e).Path, httpexchange.Of(e).Status)]++
	}
}

func (r *responses) of(p process) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := map[string]int{}
	for what, n := range r.counts[uint32(p.PID())] {
		counts[what] = n
	}
	return counts
}

// TestGoroutinesThatAreForgotten checks that if goroutines are evicted that wait for more on quiet connections, what they read is counted as
// lost, no response is reported with another request, and later ones are reported.
func TestGoroutinesThatAreForgotten(t *testing.T) {
	guest.SameOnEveryKernel(t)
	program := testbin.Go(t, "testdata/gotls")
	for _, version := range []string{"", "2"} {
		t.Run("keeping"+version, func(t *testing.T) {
			runEachWay(t, func(t *testing.T, by *way) {
				cert, key := certificate(t)
				server := speak(t, program, "server"+version, cert, key)
				client := speak(t, program, "keeping"+version, server.line(), "1")
				require.Equal(t, "ready", client.line())
				config, scope := tlsConfig(t)
				var got responses
				got.listen(&config)
				w := watch(t, config, by.change)
				w.attachedTo(scope, 2*goFunctions, server, client)
				require.Equal(t, 1, client.ask("/here"))
				w.forgetGoroutines(server, client)
				require.Equal(t, 3, client.ask("/absent", "/there", "/there"))
				w.handed()
				require.Equal(t, 2, client.ask("/absent", "/there"))
				client.end()
				w.settle()
				require.Positive(t, w.loss("tls_unknown"))
				for _, side := range []process{server, client} {
					counts := got.of(side)
					for _, wrong := range []string{"/here 404", "/there 404", "/absent 200"} {
						require.Zero(t, counts[wrong], "%s: %v", wrong, counts)
					}
					if version == "" && !w.leavesOut() { // else fields refer to lost ones
						require.Equal(t, 1, counts["/here 200"], "%v", counts)
						require.Positive(t, counts["/absent 404"], "%v", counts)
						require.GreaterOrEqual(t, counts["/there 200"], 2, "%v", counts)
					}
				}
			})
		})
	}
}

// TestGoroutinesLeaveRoom checks that no entries stay of goroutines that have left the library, however many there were.
func TestGoroutinesLeaveRoom(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const connections = 20
	program := testbin.Go(t, "testdata/gotls")
	runEachWay(t, func(t *testing.T, by *way) {
		server, client := goPair(t, program, "server", "bare", 1)
		config, scope := tlsConfig(t)
		w := watch(t, config, by.change)
		w.attachedTo(scope, 2*goFunctions, server, client)
		for range connections {
			require.Equal(t, 1, client.ask("/here"))
		}
		for _, p := range []process{server, client} {
			require.Eventually(t, func() bool { return len(w.goroutines(p)) == 0 || w.leavesOut() }, time.Minute, time.Millisecond, "%d", len(w.goroutines(p)))
		}
	})
}
