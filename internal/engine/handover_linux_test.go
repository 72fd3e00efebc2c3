// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"os"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// TestLaterProfilesWaitForTheirNames holds that profiles which join others that already have their names wait for their own, and until
// their own deadline.
func TestLaterProfilesWaitForTheirNames(t *testing.T) {
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	gated := func(piece func()) time.Duration {
		<-gate
		piece()
		return 0
	}
	s, err := symbol.New(symbol.Config{Names: gated, LargeNames: gated})
	require.NoError(t, err)
	defer func() {
		open()
		require.NoError(t, s.Close())
	}()
	a, err := s.Open(model.ProcessID{PID: uint32(os.Getpid())})
	require.NoError(t, err)
	defer a.Close()
	var got []*model.Profile
	e := &Engine{symbols: s, hooks: Hooks{Profiles: func(p []*model.Profile) { got = append(got, p...) }}}
	first, second := &model.Profile{}, &model.Profile{}
	e.handOverSoon([]*model.Profile{first})
	require.True(t, isClosed(e.waiting.settled), "it has no frames")
	frame := a.Frames(nil, []uint64{uint64(reflect.ValueOf(isClosed).Pointer()) + 1})[0]
	require.NotNil(t, frame.Late)
	time.Sleep(10 * time.Millisecond) // the deadlines differ
	e.handOverSoon([]*model.Profile{second})
	require.False(t, isClosed(e.waiting.settled), "the frame of the second has no name yet")

	<-e.waiting.due()
	e.handOverDue(e.waiting.batches[0].deadline) // a busy machine is as late as the second
	require.Equal(t, []*model.Profile{first}, got)
	require.Same(t, first, got[0])
	require.NotNil(t, e.waiting.due(), "the second has its own deadline")
	open()
	select {
	case <-e.waiting.settled:
	case <-time.After(time.Minute):
		t.Fatal("the name was not found")
	}
	e.handOver()
	require.Len(t, got, 2)
	require.Same(t, second, got[1])
	require.NotEmpty(t, frame.Settled().Lines)
	require.Nil(t, e.waiting.due())
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
