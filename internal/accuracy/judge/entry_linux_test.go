// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// frame is a native frame without a name.
func frame(path string, address uint64) pdata.FoldedFrame {
	return pdata.FoldedFrame{Mapping: path, Address: address, Type: string(model.FrameNative)}
}

func newJudge(t *testing.T) *Judge {
	t.Helper()
	j := New()
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return j
}

// TestEntriesAgainstLibgcc checks that the last frame which libgcc's unwinder finds of a thread is its entry, and no other is,
// with and without a symbol table.
func TestEntriesAgainstLibgcc(t *testing.T) {
	path := testbin.C(t, "testdata/outermost.c")
	for _, stripped := range []bool{false, true} {
		if stripped {
			require.NoError(t, exec.Command("strip", path).Run())
		}
		out, err := exec.Command(path).Output()
		require.NoError(t, err)
		threads := map[string][]pdata.FoldedFrame{}
		for line := range strings.Lines(string(out)) {
			var thread, file string
			var address uint64
			_, err := fmt.Sscanf(line, "%s %s %x", &thread, &file, &address)
			require.NoError(t, err, line)
			threads[thread] = append(threads[thread], frame(file, address))
		}
		j := newJudge(t)
		for thread, want := range map[string]Entry{"main": ProgramEntry, "thread": ThreadEntry} {
			frames := threads[thread]
			require.Greater(t, len(frames), 2, "%s of %s", thread, out)
			for i, f := range frames {
				if i < len(frames)-1 {
					require.Equal(t, NoEntry, j.entry([]pdata.FoldedFrame{f}), "%s", f)
				} else {
					require.Equal(t, want, j.entry([]pdata.FoldedFrame{f}), "%s", f)
				}
			}
		}
		require.Empty(t, j.Result().Notes)
	}
}

// TestExportedFunctionsStartNoThread checks that none of libc's functions is taken for the one in which threads start, but
// those that make threads.
func TestExportedFunctionsStartNoThread(t *testing.T) {
	out, err := exec.Command("ldd", "/bin/sh").Output()
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(out), "libc.so.6 => ")
	require.True(t, found, "%s", out)
	libc, err := filepath.EvalSymlinks(strings.Fields(rest)[0])
	require.NoError(t, err)
	m, err := openImage(libc)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.close()) }()
	symbols, err := m.file.DynamicSymbols()
	require.NoError(t, err)
	functions, starts := 0, map[string]bool{}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF {
			continue
		}
		functions++
		for address := s.Value; address < s.Value+s.Size; address++ {
			if m.startsThread(address) {
				starts[s.Name] = true
			}
		}
	}
	require.Greater(t, functions, 1000)
	require.True(t, starts["clone"], "%v", starts)
	for name := range starts {
		require.Contains(t, []string{"clone", "__clone", "vfork", "__vfork", "_exit", "_Exit"}, name)
	}
}

// TestSignalReturn checks that the code around rt_sigreturn(2), which libc does not export, is found once.
func TestSignalReturn(t *testing.T) {
	j := newJudge(t)
	libc, err := filepath.EvalSymlinks("/lib/" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-linux-gnu/libc.so.6")
	if err != nil {
		t.Skipf("not a Debian: %v", err)
	}
	m := j.image(libc)
	require.NotNil(t, m)
	wanted := signalReturns[m.machine]
	text := m.file.Section(".text")
	code := m.code(text.Addr, int(text.Size))
	require.Equal(t, 1, bytes.Count(code, wanted))
	start := text.Addr + uint64(bytes.Index(code, wanted))
	for address, want := range map[uint64]bool{
		start - 20: false, start - 1: true, start: true, start + uint64(len(wanted)): true, start + 30: false,
	} {
		require.Equal(t, want, m.returnsFromSignal(address), "%#x of code at %#x", address, start)
	}
}

func TestGoEntries(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	j := newJudge(t)
	m := j.image(exe)
	require.NotNil(t, m)
	require.True(t, m.full)
	for name, want := range map[string]Entry{
		"runtime.goexit": GoEntry, "runtime.mcall": GoEntry, "runtime.mstart": GoEntry,
		"runtime.morestack": NoEntry, "runtime.gcBgMarkWorker": NoEntry, "main.main": NoEntry,
	} {
		f := m.golang.LookupFunc(name)
		if f == nil {
			f = m.golang.LookupFunc(name + ".abi0")
		}
		require.NotNil(t, f, name)
		require.Equal(t, want, j.entry([]pdata.FoldedFrame{frame(exe, f.Entry+1)}), name)
	}
	morestack, preempt := m.golang.LookupFunc("runtime.morestack"), m.golang.LookupFunc("runtime.goschedImpl")
	if morestack == nil {
		morestack = m.golang.LookupFunc("runtime.morestack.abi0")
	}
	require.NotNil(t, preempt)
	require.Equal(t, GoEntry, j.entry([]pdata.FoldedFrame{frame(exe, morestack.Entry+1), frame(exe, preempt.Entry+1)}), "the scheduler")
	// This very goroutine, as Go itself sees it.
	var pcs [64]uintptr
	n := runtime.Callers(0, pcs[:])
	require.Equal(t, GoEntry, j.entry([]pdata.FoldedFrame{frame(exe, uint64(pcs[n-1])-1)}))
	require.Equal(t, NoEntry, j.entry([]pdata.FoldedFrame{frame(exe, uint64(pcs[n-2])-1)}))
}

func TestKernelEntries(t *testing.T) {
	j := newJudge(t)
	kernel := pdata.FoldedFrame{Type: string(model.FrameKernel), Function: "ret_from_fork_asm", Mapping: "[kernel.kallsyms]"}
	require.Equal(t, KernelEntry, j.entry([]pdata.FoldedFrame{kernel}))
	kernel.Function = "entry_SYSCALL_64_after_hwframe"
	require.Equal(t, NoEntry, j.entry([]pdata.FoldedFrame{kernel}))
}
