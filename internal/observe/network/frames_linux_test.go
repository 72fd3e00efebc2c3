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
	all := w.coll.Maps[bindings.NetworkCaptureMapNetworkFrames].Iterate()
	for all.Next(&key, &value) {
		found[key] = true
	}
	require.NoError(w.t, all.Err())
	return found
}

// TestFramesAreForgottenAtTheEnd checks that no entries stay of ended connections with HTTP/2 within TLS: open ones would lose theirs.
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
			return stay < connections*sides*directions/4 // other processes of the host may have some
		}, time.Minute, 10*time.Millisecond)
	})
}

// TestForgottenFrames checks that the requests of a connection that lost its entry to others are exported all the same if its calls begin
// with frames, and that each direction is counted whose frames are not found again: if a call continues a frame.
func TestForgottenFrames(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const requests, half, rest = 8, 4, 20
	for name, within := range map[string]bool{"between frames": false, "within a frame": true} {
		t.Run(name, func(t *testing.T) {
			runEachWay(t, func(t *testing.T, by *way) {
				w := watch(t, requestConfig(), by.change)
				others := w.frames()
				client, server := connected(t)
				asks, answers := conversation(t, requests, 100)
				require.NoError(t, w.Drain())
				before := w.loss("frames_full")
				for i := range asks {
					exchangeBytes(t, client, server, asks[i])
					answer := answers[i]
					if i == half && within {
						cut := len(answer) - rest
						exchangeBytes(t, server, client, answer[:cut])
						answer = answer[cut:]
					}
					if i == half {
						for key := range w.frames() {
							if !others[key] {
								_ = w.coll.Maps[bindings.NetworkCaptureMapNetworkFrames].Delete(key[:]) // it may have been deleted
							}
						}
					}
					exchangeBytes(t, server, client, answer)
				}
				require.NoError(t, client.Close())
				require.NoError(t, server.Close())
				w.settle()
				if w.missed() > 0 {
					return
				}
				if within {
					require.EqualValues(t, 2, w.loss("frames_full")-before, "the server's writes and the client's reads")
					return
				}
				require.Zero(t, w.loss("frames_full")-before)
				for _, side := range []string{"client", "server"} {
					w.alike(map[string]uint64{"GET 200": requests}, counts(w.requestPoints("http."+side+".request.duration")), side)
				}
			})
		})
	}
}
