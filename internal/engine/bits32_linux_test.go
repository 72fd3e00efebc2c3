// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package engine

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// bits32C computes for some time, four calls deep, without frame pointers and without any library.
const bits32C = `
static volatile unsigned x;
#define CALL(name, callee) __attribute__((noinline, noclone)) void name(unsigned n) { volatile unsigned room[20]; room[3] = n; callee; x += room[3]; }
CALL(leaf, for (unsigned i = 0; i < n; i++) x += i * x)
CALL(middle, leaf(n))
CALL(top, middle(n))
void _start(void)
{
	for (int i = 0; i < 4; i++)
		top(100000000);
	__asm__ volatile("movl $1, %eax; movl $0, %ebx; int $0x80");
}
`

// TestStacksOf32Bits holds that stacks of a 32-bit program, which the kernel follows by frame pointers that the program does
// not have, are not exported as complete.
func TestStacksOf32Bits(t *testing.T) {
	needRoot(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the program is of i386")
	}
	path := compileText(t, "bits32", bits32C, "-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie")
	e := begin(t, configuration(time.Millisecond, process.Selector{Exe: path}))
	p := launch(t, path)
	p.end()
	e.end()
	all, broken, got := e.whole(p.Process.Pid)
	require.Greater(t, all, int64(50), "%s", got)
	require.GreaterOrEqual(t, broken, all-2, "%s: but where it has one frame, as at its begin", got)
	require.GreaterOrEqual(t, got.errors[model.StackNoTable], broken*98/100, "%s: but where what its register holds leads nowhere", got)
	require.GreaterOrEqual(t, e.Stats().Incomplete[LossKey{"unwind", "no_unwind_table"}], uint64(got.errors[model.StackNoTable]))
}
