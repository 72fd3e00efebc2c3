// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package engine

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// bits32C computes until it is killed, four calls deep, without frame pointers and without any library.
const bits32C = `
static volatile unsigned x;
#define CALL(name, callee) __attribute__((noinline, noclone)) void name(unsigned n) { volatile unsigned room[20]; room[3] = n; callee; x += room[3]; }
CALL(leaf, for (unsigned i = 0; i < n; i++) x += i * x)
CALL(middle, leaf(n))
CALL(top, middle(n))
void _start(void)
{
	for (;;)
		top(100000000);
}
`

// TestStacksOf32Bits holds that stacks of a 32-bit program, which the kernel follows by frame pointers that the program does
// not have, are not exported as complete.
func TestStacksOf32Bits(t *testing.T) {
	e, pid := stacksOf32Bits(t)
	for _, p := range e.of(isPID(pid)) {
		for _, one := range p.Samples {
			kernel := slices.IndexFunc(slices.Concat(one.Frames, []*model.Frame{{}}), func(f *model.Frame) bool { return f.Type != model.FrameKernel })
			require.False(t, one.Error == model.StackWhole && len(one.Frames)-kernel > 1, "%s", names(one.Frames))
		}
	}
	_, _, got := e.whole(pid)
	require.Positive(t, got.errors[model.StackNoTable])
	require.GreaterOrEqual(t, e.Stats().Incomplete[LossKey{"unwind", "no_unwind_table"}], uint64(got.errors[model.StackNoTable]))
}

// TestMeasureStacksOf32Bits holds how many of these stacks say what they lack.
func TestMeasureStacksOf32Bits(t *testing.T) {
	e, pid := stacksOf32Bits(t)
	all, broken, got := e.whole(pid)
	require.GreaterOrEqual(t, broken, all-2, "%s: but where it has one frame, as at its begin", got)
	require.GreaterOrEqual(t, got.errors[model.StackNoTable], broken*98/100, "%s: but where what its register holds leads nowhere", got)
}

// stacksOf32Bits returns an engine that has ended and has sampled the program, and its process.
func stacksOf32Bits(t *testing.T) (e *observed, pid int) {
	t.Helper()
	needRoot(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is of i386")
	}
	path := compileText(t, "bits32", bits32C, "-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie")
	e = begin(t, configuration(time.Millisecond, process.Selector{Exe: path}))
	p := launch(t, path)
	e.await(p.Process.Pid, func(got sum) bool { return got.samples > 50 && got.errors[model.StackNoTable] > 0 })
	p.kill()
	e.end()
	return e, p.Process.Pid
}
