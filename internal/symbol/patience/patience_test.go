// SPDX-License-Identifier: Apache-2.0

package patience

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// remote is a device that may hang, disk one that does not.
const remote, disk = 0x2a, 8 << 8

func TestWhatMayHang(t *testing.T) {
	require.True(t, MayHang(proc.Device(0, 0x2a)))
	require.True(t, MayHang(proc.Device(0, 0x12345)))
	require.False(t, MayHang(proc.Device(8, 1)))
	require.False(t, MayHang(proc.Device(259, 3)))
	require.False(t, MayHang(proc.Device(0x1000, 3)))
}

// TestPatienceEnds makes calls to a device that does not answer, and gets its answers when it does.
func TestPatienceEnds(t *testing.T) {
	now := time.Unix(1000, 0)
	p := New()
	p.now = func() time.Time { return now }
	hangs, late := make(chan struct{}), make(chan int, 1)
	began := time.Now()
	_, err := Ask(p, remote, func() (int, error) { <-hangs; return 7, nil }, func(n int) { late <- n })
	require.ErrorIs(t, err, reason.ErrNoAnswer)
	require.GreaterOrEqual(t, time.Since(began), answerWithin)

	p.within = time.Minute // a quick call is one however long the thread stands still
	quick := func() (int, error) { return 1, nil }
	_, err = Ask(p, remote, quick, nil)
	require.ErrorIs(t, err, reason.ErrNoAnswer, "it is left alone")
	n, err := Ask(p, remote+1, quick, nil)
	require.NoError(t, err)
	require.Equal(t, 1, n)

	now = now.Add(askAgainAfter)
	n, err = Ask(p, remote, quick, nil)
	require.NoError(t, err, "after a while it is asked again")
	require.Equal(t, 1, n)
	require.Equal(t, 1, p.unanswered)
	close(hangs)
	require.Equal(t, 7, <-late, "a late result is freed")
	require.Zero(t, p.unanswered)
}

func TestPatienceIsBounded(t *testing.T) {
	p := New()
	hangs := make(chan struct{})
	var all sync.WaitGroup
	for i := range maxUnanswered {
		all.Go(func() {
			_, err := Ask(p, proc.Device(0, uint64(i)), func() (int, error) { <-hangs; return 0, nil }, nil)
			require.ErrorIs(t, err, reason.ErrNoAnswer)
		})
	}
	all.Wait()
	_, err := Ask(p, proc.Device(0, 1000), func() (int, error) { return 0, nil }, nil)
	require.ErrorIs(t, err, reason.ErrNoAnswer)
	n, err := Ask(p, disk, func() (int, error) { return 3, nil }, nil)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	close(hangs)
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.unanswered == 0
	}, time.Minute, time.Millisecond)
}

// TestMeasurePatience checks that a caller waits for no longer than a second, and the next one not at all.
func TestMeasurePatience(t *testing.T) {
	p := New()
	hangs := make(chan struct{})
	defer close(hangs)
	call := func() (int, error) { <-hangs; return 0, nil }
	for _, waits := range []time.Duration{answerWithin, 0} {
		began := time.Now()
		_, err := Ask(p, remote, call, nil)
		require.ErrorIs(t, err, reason.ErrNoAnswer)
		require.InDelta(t, waits.Seconds(), time.Since(began).Seconds(), 0.5)
	}
}

// TestPatienceCloses checks that a file that cannot be closed now is closed later, and that no caller waits twice: the second one would get
// an error.
func TestPatienceCloses(t *testing.T) {
	p := New()
	hangs, closed := make(chan struct{}), make(chan struct{}, 2)
	shut := func() error { <-hangs; closed <- struct{}{}; return nil }
	require.ErrorIs(t, p.Close(remote, shut), reason.ErrNoAnswer)
	require.NoError(t, p.Close(remote, shut))
	p.within = time.Minute
	why := errors.New("why")
	require.ErrorIs(t, p.Close(remote+1, func() error { return why }), why)
	close(hangs)
	<-closed
	<-closed
}
