// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// framesKey is struct network_frames_key of bpf/include/network_window.h.
type framesKey [16]byte

// frames are the directions of connections whose frames are followed, of the whole host.
func (w *watching) frames() map[framesKey]bool {
	w.t.Helper()
	var key framesKey
	var value []byte
	found := map[framesKey]bool{}
	all := w.coll.Maps[bindings.NetworkMapNetworkFrames].Iterate()
	for all.Next(&key, &value) {
		found[key] = true
	}
	require.NoError(w.t, all.Err())
	return found
}

// TestFramesAreForgottenAtTheEnd holds that nothing is remembered of connections with HTTP/2 within TLS that have ended: those that live
// would lose their places to them.
func TestFramesAreForgottenAtTheEnd(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const connections, sides, directions = 10, 2, 2
	program := testbin.Go(t, "testdata/gotls")
	runEachWay(t, func(t *testing.T, by *way) {
		server, client := goPair(t, program, "server2", "client2", 1)
		config, scope := tlsConfig(t)
		w := watch(t, config, by.change)
		w.attachedTo(scope, 2*goFunctions, server, client)
		before := w.frames()
		for range connections {
			require.Equal(t, 1, client.ask("/here"))
		}
		w.settle()
		w.nearly(map[string]uint64{"200": connections}, w.http2Requests(server, "server"), "server")

		require.Eventually(t, func() bool {
			stay := 0
			for key := range w.frames() {
				if !before[key] {
					stay++
				}
			}
			return stay < connections*sides*directions/4 // others on the host may have some
		}, 30*time.Second, 10*time.Millisecond)
	})
}

// TestForgottenFramesAreCounted holds that it is counted where a connection lost its place to others, and that its requests are told all
// the same where its calls begin with frames.
func TestForgottenFramesAreCounted(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const requests, half = 8, 4
	runEachWay(t, func(t *testing.T, by *way) {
		w := watch(t, requestConfig(), by.change)
		client, server := connected(t)
		asks, answers := conversation(t, requests, 100)
		before := w.loss("frames_full")
		for i := range asks {
			if i == half {
				require.NoError(t, w.Drain())
				before = w.loss("frames_full")
				for key := range w.frames() {
					_ = w.coll.Maps[bindings.NetworkMapNetworkFrames].Delete(key[:]) // it may be gone
				}
			}
			exchangeBytes(t, client, server, asks[i])
			exchangeBytes(t, server, client, answers[i])
		}
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
		w.settle()
		for _, side := range []string{"client", "server"} {
			w.alike(map[string]uint64{"GET 200": requests}, counts(w.requestPoints("http."+side+".request.duration")), side)
		}
		if w.missed() == 0 {
			require.GreaterOrEqual(t, w.loss("frames_full")-before, uint64(4), "both directions of both ends")
		}
	})
}
