// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

func TestBudget(t *testing.T) {
	b := newBudget(9000)
	take := func(pid uint32) (n uint64) {
		for b.take(observe.SubjectKey{PID: pid}, 10, 0) {
			n++
		}
		return 10 * n
	}
	require.InDelta(t, 8000, take(1), 20, "one alone has eight ninths")
	require.InDelta(t, 1000*8/9, take(2), 20)
	require.NotZero(t, take(3), "some is free always")
	used := b.used
	require.False(t, b.take(observe.SubjectKey{PID: 1}, 30, 10))
	require.True(t, b.take(observe.SubjectKey{PID: 1}, 10, 10), "in place of another one")
	require.Equal(t, used, b.used)
	b.give(observe.SubjectKey{PID: 1}, b.held[observe.SubjectKey{PID: 1}])
	require.Len(t, b.held, 2)
	free := b.most - b.used
	require.InDelta(t, free*8/9, take(4), 100)
	require.False(t, b.take(observe.SubjectKey{PID: 5}, 9001, 0))
}

// TestJournalIsShared checks that processes with very many requests leave memory for those of a process that begins later.
func TestJournalIsShared(t *testing.T) {
	conn := func(pid uint32) Connection { return Connection{Subject: observe.SubjectKey{PID: pid}} }
	size := newRequest(Connection{}, exchange(l7.RoleServer, "/a0000", 200, 1), "", &Redaction{}, wall).bytes()
	j := NewJournal(JournalConfig{Which: AllRequests, Top: 10, Bytes: 5000 * size})
	for i := range 5000 {
		for pid := range uint32(6) {
			j.Add(conn(pid+1), exchange(l7.RoleServer, fmt.Sprintf("/a%04d", i), 200, 1+i%100), "", wall)
		}
	}
	lost := decided(j).Lost(AsLog)
	require.Positive(t, lost)
	const honest = 30
	for i := range honest {
		j.Add(conn(7), exchange(l7.RoleServer, fmt.Sprintf("/own%02d", i), 200, 1), "", wall)
	}
	require.Equal(t, lost, decided(j).Lost(AsLog))
	count := map[uint32]int{}
	for _, r := range j.Take(AsLog) {
		count[r.Subject.PID]++
	}
	require.Equal(t, honest, count[7])
	for pid := range uint32(6) {
		require.InDelta(t, 5000/6, count[pid+1], 5000/6/4, "%v", count)
	}
	require.Len(t, j.TakeTop()[Slow], 70)
	require.Zero(t, j.Bytes())
	require.Empty(t, j.bytes.held)
}
