// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
)

const leavesLibrary = `
unsigned long from_library(unsigned long n) {
	unsigned long x = n;
	for (unsigned long i = 0; i < n; i++) { x = x * 31 + i; asm volatile("" : "+r"(x)); }
	return x;
}
`

// leavesC has functions of all kinds between two traps: leaves without a frame, called directly, through a pointer, a library and a tail
// call; functions that set their frame up late, or have one without a frame pointer.
const leavesC = `
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
unsigned long from_library(unsigned long);
#define NOINLINE __attribute__((noinline, noclone, noipa))
NOINLINE static unsigned long hot(unsigned long n) {
	unsigned long x = n;
	for (unsigned long i = 0; i < n; i++) { x = x * 31 + i; asm volatile("" : "+r"(x)); }
	return x;
}
NOINLINE static unsigned long tail(unsigned long n) { return n % 3 ? hot(n) : from_library(n); }
NOINLINE static unsigned long late(unsigned long n) {
	if (n < 4)
		return n * 3;
	char text[200];
	snprintf(text, sizeof(text), "%lu %s", hot(n), "late");
	return strlen(text) + late(n - 1);
}
NOINLINE static unsigned long fib(unsigned long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
NOINLINE static unsigned long leafwithlocals(unsigned long n) {
	volatile unsigned char big[600];
	for (unsigned long i = 0; i < sizeof(big); i += 40) big[i] = n + i;
	return big[n % 600 / 40 * 40];
}
NOINLINE static unsigned long hollow(unsigned long n) { volatile unsigned long a[40]; a[n % 40] = n; return hot(a[n % 40]) + n; }
static int compare(const void *x, const void *y) { return *(const int *)x - *(const int *)y; }
unsigned long (*volatile pointer)(unsigned long) = hot;
int main(void) {
	volatile unsigned long sum = 0;
	int order[12];
	asm volatile("int3");
	for (unsigned long n = 0; n < 3; n++) {
		sum += hot(n + 9) + pointer(n) + tail(n) + late(n) + from_library(n) + leafwithlocals(n) + hollow(n);
		for (int i = 0; i < 12; i++) order[i] = (i * 7919 + n) % 41;
		qsort(order, 12, sizeof(order[0]), compare);
		char *copy = malloc(60 + n);
		memset(copy, 'a', 60);
		copy[59] = 0;
		sum += strlen(copy) + (unsigned long)memchr(copy, 0, 60) + fib(n);
		free(copy);
	}
	asm volatile("int3");
	return sum == 0;
}
`

// compileLeaves makes the program with its library, and returns both.
func compileLeaves(t testing.TB, flags ...string) (bin, library string) {
	t.Helper()
	flags = append([]string{"-O2", "-fno-omit-frame-pointer"}, flags...)
	library = toolchain.CompileC(t, leavesLibrary, "libleaves.so", append(flags, "-shared", "-fPIC")...)
	bin = toolchain.CompileC(t, leavesC, "leaves", append(flags, library, "-Wl,-rpath,"+filepath.Dir(library))...)
	return bin, library
}

// TestCalledStepByStep runs programs one instruction at a time and follows
// their calls and returns, and so knows at each step whether the word at the
// top of the stack is the return address.
func TestCalledStepByStep(t *testing.T) {
	for name, flags := range map[string][]string{
		"lazy":            {"-Wl,-z,lazy"},
		"now":             {"-Wl,-z,now"},
		"no-plt":          {"-fno-plt"},
		"marked branches": {"-fcf-protection=full", "-Wl,-z,ibtplt", "-O1"},
		"no-frames":       {"-fomit-frame-pointer", "-O3", "-no-pie"},
	} {
		t.Run(name, func(t *testing.T) {
			bin, library := compileLeaves(t, flags...)
			if name == "lazy" {
				require.NotContains(t, disassembly(t, bin, "hot"), "push", "the test is of a leaf without a frame")
				require.NotContains(t, disassembly(t, library, "from_library"), "push")
				require.Contains(t, disassembly(t, bin, "late"), "push")
			}
			score := stepThrough(t, bin)
			t.Logf("%+v", score)
			require.Zero(t, score.wrong, "a wrong caller is worse than none")
			require.Greater(t, score.steps, 5000)
			require.Greater(t, score.atTop, 500)
			require.Zero(t, score.missedIn["hot"])
			require.Positive(t, score.foundIn["hot"])
			require.Zero(t, score.missedIn["from_library"])
			require.Positive(t, score.foundIn["from_library"])
		})
	}
}

func disassembly(t testing.TB, bin, function string) string {
	t.Helper()
	text := toolchain.Run(t, "objdump", "-d", "--no-show-raw-insn", "--disassemble="+function, bin)
	require.Contains(t, text, "<"+function+">:")
	return text
}

// score counts the results of stepping through a program.
type score struct {
	steps, atTop, found, wrong int
	foundIn, missedIn          map[string]int
}

// stepThrough runs a program from its first trap to the second and calls Called at each instruction.
func stepThrough(t *testing.T, bin string) score {
	t.Helper()
	runtime.LockOSThread() // ptrace is by thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(bin)
	cmd.SysProcAttr = &unix.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Skipf("this system does not let a test trace its own child: %v", err)
	}
	pid := cmd.Process.Pid
	defer func() {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait(), "killed")
	}()
	waitTrap(t, pid)
	require.NoError(t, unix.PtraceCont(pid, 0))
	waitTrap(t, pid)

	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, pid)
	out := score{foundIn: map[string]int{}, missedIn: map[string]int{}}
	var regs, last unix.PtraceRegs
	var slots []uint64 // where the return addresses are, innermost last
	for {
		require.NoError(t, unix.PtraceGetRegs(pid, &regs))
		top := peek(t, pid, regs.Rsp)
		if regs.Rsp == last.Rsp-8 && top-last.Rip-2 < 7 && regs.Rip != top {
			slots = append(slots, regs.Rsp) // a call just happened
		}
		for len(slots) > 0 && regs.Rsp > slots[len(slots)-1] {
			slots = slots[:len(slots)-1]
		}
		atTop := len(slots) > 0 && slots[len(slots)-1] == regs.Rsp
		out.add(t, a, regs.Rip, top, atTop)
		if peek(t, pid, regs.Rip)&0xff == 0xcc {
			break
		}
		last = regs
		require.NoError(t, unix.PtraceSingleStep(pid))
		waitTrap(t, pid)
	}
	require.Nil(t, s.Stats().LastError)
	require.LessOrEqual(t, s.Stats().OtherBytes, int64(2<<20))
	return out
}

func (c *score) add(t *testing.T, a *AddressSpace, pc, top uint64, atTop bool) {
	c.steps++
	got := a.Called(pc, top)
	if !atTop {
		if got {
			c.wrong++
			t.Errorf("%s at %#x: %#x is not the return address", nameOf(a, pc), pc, top)
		}
		return
	}
	c.atTop++
	if got {
		c.found++
		c.foundIn[nameOf(a, pc)]++
	} else {
		c.missedIn[nameOf(a, pc)]++
	}
}

func waitTrap(t *testing.T, pid int) {
	t.Helper()
	var status unix.WaitStatus
	_, err := unix.Wait4(pid, &status, 0, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped() && status.StopSignal() == unix.SIGTRAP, "status %#x", status)
}

func peek(t *testing.T, pid int, addr uint64) uint64 {
	t.Helper()
	var b [8]byte
	n, err := unix.PtracePeekData(pid, uintptr(addr), b[:])
	require.NoError(t, err)
	require.Equal(t, 8, n)
	return le.Uint64(b[:])
}
