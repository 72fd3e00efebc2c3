// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// TestLossesAreReadAtAnyTime checks that losses and metrics can be read while connections are followed; the race detector finds what is not
// synchronised.
func TestLossesAreReadAtAnyTime(t *testing.T) {
	const times = 300
	f := followTCP(Config{Journal: requests.JournalConfig{Which: requests.AllRequests, Bytes: 1 << 20}})
	f.wall = func(int64) time.Time { return time.Time{} }
	known := &model.Process{}
	var all sync.WaitGroup
	all.Go(func() {
		for sock := range uint64(times) {
			f.recordText(sock, l7.Read, requestText)
			f.recordText(sock, l7.Write, responseText)
			f.recordText(sock, l7.Read, requestText)
			f.record(&segment{Kind: uint8(bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_UNSEEN)}, nil)
			tls := &segment{Sock: 1 << 20, Stream: uint32(sock), Protocol: uint8(bindings.NetworkNetworkProtocolNETWORK_TLS)}
			f.recordClose(tls)
		}
		f.mostConnected = 0
		f.relieve()
	})
	inScope := func(observe.SubjectKey) bool { return true }
	read := func() map[string]uint64 {
		f.totals.Name(func(observe.SubjectKey) (*model.Process, bool) { return known, true })
		f.totals.Metrics(time.Time{}, l7.RoleUnknown)
		f.totals.Bytes()
		f.waitingBytes()
		f.takeTop()
		f.lost.Decide(inScope)
		f.opaque.name(inScope)
		f.unseen.name(inScope)
		counted := map[string]uint64{}
		for _, loss := range f.losses() {
			counted[loss.Reason] = loss.Count
		}
		return counted
	}
	for range times {
		read()
	}
	all.Wait()
	counted := read()
	for _, reason := range []string{"connections_full", "io_uring_unseen", "tls_opaque"} {
		require.EqualValues(t, times, counted[reason], reason)
	}
}
