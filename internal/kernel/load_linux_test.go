// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
)

// long is a program that the verifier follows for some hundred milliseconds: each of its states has the number of the loop's iterations.
func long(name string) *ebpf.ProgramSpec {
	return &ebpf.ProgramSpec{
		Name: name, Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R6, 0),
			asm.Add.Imm(asm.R6, 1).WithSymbol("loop"),
			asm.JLT.Imm(asm.R6, 200_000, "loop"),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	}
}

// programs counts the file descriptors of programs of this process.
func programs(t *testing.T) int { return descriptors(t, "bpf-prog") }

// descriptors counts the file descriptors of this process whose target contains a text.
func descriptors(t *testing.T, kind string) (n int) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, file := range files {
		if target, err := os.Readlink("/proc/self/fd/" + file.Name()); err == nil && strings.Contains(target, kind) {
			n++
		}
	}
	return n
}

// TestLoadIsGivenUp checks that loading ends when its context does, also while the kernel verifies a program, and that it leaves nothing
// behind.
func TestLoadIsGivenUp(t *testing.T) {
	needRoot(t)
	spec := &ebpf.CollectionSpec{
		Maps:     map[string]*ebpf.MapSpec{"some": {Name: "some", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}},
		Programs: map[string]*ebpf.ProgramSpec{},
	}
	for _, name := range strings.Fields("a b c d e f g h i j k l m n o p") {
		spec.Programs[name] = long(name)
	}
	before := programs(t)
	ctx, cancel := context.WithCancel(t.Context())
	charged, done := make(chan struct{}, len(spec.Programs)), make(chan struct{}, len(spec.Programs))
	finish := make(chan struct{})
	end := sync.OnceFunc(func() { close(finish) })
	defer end()
	var verified atomic.Int64
	loader := NewLoader().Until(ctx, func(work func()) {
		charged <- struct{}{}
		work()
		if verified.Add(1) > 1 {
			<-finish // however late Load returns
		}
		done <- struct{}{}
	})
	require.NoError(t, loader.Err())
	go func() {
		<-charged
		<-done
		<-charged // the first is loaded, the second is verified
		cancel()
	}()
	_, err := loader.Load("the long programs", spec, nil)
	require.ErrorIs(t, err, ErrGivenUp)
	require.Empty(t, done, "Load does not wait for the verifier")
	require.ErrorIs(t, loader.Err(), ErrGivenUp)
	_, err = loader.Observing(1).Load("the long programs", spec, nil)
	require.ErrorIs(t, err, ErrGivenUp)
	end()
	<-done
	require.Eventually(t, func() bool { return programs(t) == before }, time.Minute, 10*time.Millisecond, "what was verified is freed")
	require.Empty(t, charged, "nothing is verified any more")
}

// TestMapsOfAnAbandonedLoad checks that the maps of a load that was cancelled stay open while the kernel verifies a program, and no longer.
func TestMapsOfAnAbandonedLoad(t *testing.T) {
	needRoot(t)
	spec := &ebpf.CollectionSpec{
		Maps:     map[string]*ebpf.MapSpec{"some": {Name: "some", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1}},
		Programs: map[string]*ebpf.ProgramSpec{"a": long("a")},
	}
	before := descriptors(t, "bpf-map")
	ctx, cancel := context.WithCancel(t.Context())
	verify := make(chan struct{})
	loader := NewLoader().Until(ctx, func(work func()) {
		cancel()
		<-verify
		work()
	})
	_, err := loader.Load("the long program", spec, nil)
	require.ErrorIs(t, err, ErrGivenUp)
	require.Equal(t, before+1, descriptors(t, "bpf-map"), "the program is not verified yet")
	close(verify)
	require.Eventually(t, func() bool { return descriptors(t, "bpf-map") == before }, time.Minute, 10*time.Millisecond)
}
