// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// TestWaysToClose checks that a connection is reported until its last descriptor is closed, in any way, and that calls of close() are
// reported as operations, including those that leave another descriptor, and nothing else is.
func TestWaysToClose(t *testing.T) {
	ways := map[string]struct {
		close  func(*nettest.Socket)
		closes uint64
	}{
		"close":              {(*nettest.Socket).Close, 1},
		"close, after a dup": {func(s *nettest.Socket) { s.Dup().Close(); s.Close() }, 2},
		"close_range":        {(*nettest.Socket).CloseAsRange, 0},
		"dup3":               {func(s *nettest.Socket) { s.ReplaceBy(s.Program().Open("tcp4")) }, 0},
		"exit":               {func(s *nettest.Socket) { s.Program().End() }, 0},
	}
	eachWay(t, func(t *testing.T, start func() *watching) {
		w := start()
		for name, way := range ways {
			_, from, to := pair(t)
			nettest.Carry(from, nettest.Transfer{How: "write", Bytes: 100}, to, nettest.Transfer{How: "read", Bytes: 100})
			w.report()
			require.EqualValues(t, 1, w.open(from.Program(), "established"), name)
			way.close(from)
			to.Close()
			w.report()
			require.Zero(t, w.open(from.Program(), "established"), name)
			require.EqualValues(t, 100, w.sum(from.Program(), "ebpf.network.io", "ebpf.role=client"), name)
			var closes uint64
			for _, p := range w.points(from.Program(), "ebpf.network.operation.duration", "ebpf.operation=close") {
				closes += p.Histogram.Count
			}
			require.Equal(t, way.closes, closes, name)
		}
	})
}
