// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// sample is a sample of process 7, root first.
func sample(value int64, why model.StackError, stack ...pdata.FoldedFrame) pdata.FoldedSample {
	s := pdata.FoldedSample{Resource: pcommon.NewMap(), Attributes: pcommon.NewMap(), Stack: stack, Value: value, Profile: &pdata.FoldedProfile{Start: time.Unix(100, 0)}}
	s.Resource.PutInt(pdata.KeyProcessPID, 7)
	if why != model.StackWhole {
		s.Attributes.PutStr(pdata.KeyStackError, string(why))
	}
	return s
}

func TestLater(t *testing.T) {
	j := newJudge(t)
	for i, value := range []int64{5, 3, 4} {
		whole, broken := sample(value, model.StackWhole, kernelFrame("ret_from_fork")), sample(1, model.StackNoTable)
		whole.Profile.Start = time.Unix(100+int64(i), 0)
		broken.Profile = whole.Profile
		j.Add(whole)
		j.Add(broken)
	}
	r := j.Result()
	require.Equal(t, []int64{15, 12, 9, 7}, []int64{r.Samples, r.Whole, r.Later, r.LaterWhole})
}

func kernelFrame(function string) pdata.FoldedFrame {
	return pdata.FoldedFrame{Mapping: "[kernel.kallsyms]", Function: function, Type: string(model.FrameKernel)}
}

func TestAdd(t *testing.T) {
	path := testbin.C(t, "testdata/outermost.c")
	j := newJudge(t)
	j.PerfMap = func(pid int64) bool { return pid == 7 }
	entry := j.image(path).entry
	start, jit := frame(path, entry+0x20), pdata.FoldedFrame{Address: 0x7f0000001000, Type: string(model.FrameNative)}

	j.Add(sample(5, model.StackWhole, start, jit))
	j.Add(sample(3, model.StackNoTable, frame(path, entry+0x2000)))
	j.Add(sample(2, model.StackWhole, kernelFrame("entry_SYSCALL_64_after_hwframe")))
	j.Add(sample(1, model.StackNoMappings))
	j.Add(sample(4, model.StackWhole, kernelFrame("ret_from_fork"), kernelFrame("schedule_tail")))
	j.Add(sample(9, model.StackUnreadable, start, kernelFrame("do_exit"), kernelFrame("exit_mmap")))

	r := j.Result()
	require.EqualValues(t, 15, r.Samples)
	require.EqualValues(t, 9, r.Exiting)
	require.EqualValues(t, 9, r.Whole)
	require.Equal(t, map[Entry]int64{ProgramEntry: 5, KernelEntry: 4}, r.Entries)
	require.Equal(t, map[string]int64{"no_unwind_table": 3, "process_exited": 1}, r.Errors)
	require.EqualValues(t, 2, r.Contradicted, "the one that says it is whole and has no frame of user space")
	require.Equal(t, map[End]int64{
		{Mapping: path, Address: entry + 0x2000, Error: "no_unwind_table"}: 3,
		{Mapping: "kernel", Function: "entry_SYSCALL_64_after_hwframe"}:    2,
		{Mapping: "no frames", Error: "process_exited"}:                    1,
	}, r.Ends)
	require.Equal(t, Frames{All: 5*2 + 3 + 2 + 4*2, Unnamed: 5*2 + 3, WithSymbols: 5*2 + 3 + 2 + 4*2, UnnamedWithSymbols: 5*2 + 3}, r.Frames)
	require.Equal(t, Frames{All: 5, Unnamed: 5, WithSymbols: 5, UnnamedWithSymbols: 5}, r.Mappings["no file"])
	require.EqualValues(t, 5, r.Callers)
}

func TestFalseCallers(t *testing.T) {
	path := testbin.C(t, "testdata/outermost.c")
	j := newJudge(t)
	entry := j.image(path).entry
	j.Add(sample(3, model.StackWhole, frame(path, entry+3), frame(path, entry+8)))
	r := j.Result()
	require.EqualValues(t, 3, r.Callers)
	require.EqualValues(t, 3, r.FalseCallers)
	require.Equal(t, map[End]int64{{Mapping: path, Address: entry + 3}: 3}, r.FalseEnds)

	inlined := frame(path, entry+8)
	inlined.Inlined = true
	j.Add(sample(2, model.StackWhole, frame(path, entry+8), inlined, inlined))
	j.Add(sample(2, model.StackWhole, frame(path, entry+8), inlined, kernelFrame("asm_exc_page_fault")))
	require.EqualValues(t, 3, j.Result().Callers, "what is inlined into the innermost frame was not called by it")
	j.Add(sample(2, model.StackWhole, frame(path, entry+8), inlined, frame(path, entry+3)))
	require.EqualValues(t, 5, j.Result().Callers)
}

// TestSymbolsExist distinguishes a binary with a symbol table from one that exports a few functions.
func TestSymbolsExist(t *testing.T) {
	path := testbin.C(t, "testdata/outermost.c", "-rdynamic")
	exported, hidden := symbolOf(t, path, "main"), symbolOf(t, path, "run")
	for _, stripped := range []bool{false, true} {
		if stripped {
			require.NoError(t, exec.Command("strip", path).Run())
		}
		j := newJudge(t)
		require.True(t, j.hasSymbols(frame(path, exported+1), 7))
		require.Equal(t, !stripped, j.hasSymbols(frame(path, hidden+1), 7))
		require.False(t, j.hasSymbols(pdata.FoldedFrame{Address: 0x1000, Type: "native"}, 7), "no perf map")
		require.False(t, j.hasSymbols(frame("[vdso]", 0x1000), 7))
	}
}

func symbolOf(t *testing.T, path, name string) uint64 {
	t.Helper()
	m, err := openImage(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.close()) }()
	symbols, err := m.file.Symbols()
	require.NoError(t, err)
	for _, s := range symbols {
		if s.Name == name {
			return s.Value
		}
	}
	t.Fatalf("no symbol %s", name)
	return 0
}

func TestUnreadableBinaryIsNoted(t *testing.T) {
	j := newJudge(t)
	for range 2 {
		j.Add(sample(1, model.StackWhole, frame("/nowhere/at/all", 1)))
	}
	require.Equal(t, []string{"opening a binary: open /nowhere/at/all: no such file or directory"}, j.Result().Notes)
}

func TestEndsAreBounded(t *testing.T) {
	j := newJudge(t)
	for i := range maxEnds + 10 {
		j.Add(sample(1, model.StackWhole, frame("[x]", uint64(i+1))))
	}
	require.Len(t, j.Result().Ends, maxEnds+1)
	require.EqualValues(t, 10, j.Result().Ends[End{Mapping: "others"}])
}

func TestCommon(t *testing.T) {
	less := func(a, b string) int { return len(a) - len(b) }
	require.Equal(t, []string{"b", "cc", "aaa"}, Common(map[string]int64{"aaa": 1, "b": 3, "cc": 1, "dddd": 1}, 3, less))
}

func TestEndText(t *testing.T) {
	require.Equal(t, "/a!0x10 f [fault]", End{Mapping: "/a", Address: 16, Function: "f", Error: "fault"}.String())
	text, err := End{Mapping: "kernel"}.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "kernel", string(text))
}
