// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/kernelsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/kernelsym/ksymtest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

func TestKernelFramesOfPrograms(t *testing.T) {
	ksymtest.Need(t)
	ksymtest.Load(t, "framed")
	addr := bpfAddress(t, "framed")
	s := newSymbolizer(t, Config{})
	now := time.Now()
	s.now = func() time.Time { return now }
	f := s.KernelFrames(nil, []uint64{addr})[0]
	require.Regexp(t, "^bpf_prog_[0-9a-f]{16}_framed$", functionOf(f))
	require.Equal(t, "[bpf]", f.Mapping.Path)
	require.Zero(t, f.Address)
	require.NotZero(t, f.Mapping.Limit)
	require.Less(t, f.Mapping.Limit, uint64(4096))

	now = now.Add(time.Minute / 2)
	require.NotSame(t, f, s.KernelFrames(nil, []uint64{addr + 1})[0])
	require.Same(t, f, s.KernelFrames(nil, []uint64{addr})[0])
	now = now.Add(time.Minute)
	require.Equal(t, f, s.KernelFrames(nil, []uint64{addr})[0])
	s.KernelFrames(nil, []uint64{addr + 2})
	require.NotSame(t, f, s.KernelFrames(nil, []uint64{addr})[0], "another program may be there by now")
	require.Zero(t, s.Stats().TableBytes)
}

// TestKernelFramesByTable checks that functions which only the table has are found there.
func TestKernelFramesByTable(t *testing.T) {
	ksymtest.Need(t)
	root := ksymtest.Root(t, map[string]string{"proc/kallsyms": ksymtest.Kallsyms + "0000000000001000 t only_there\t[__builtin__ftrace]\n", "proc/modules": ""})
	s := newSymbolizer(t, Config{RootPath: root})
	f := s.KernelFrames(nil, []uint64{0x1010})[0]
	require.Equal(t, "only_there", functionOf(f))
	require.Equal(t, "[__builtin__ftrace]", f.Mapping.Path)
	require.EqualValues(t, 0x10, f.Address)
	require.EqualValues(t, 1, s.Stats().TablesBuilt)
}

// TestKernelFramesAsked checks that frames are the same whether the kernel is asked or the table is read.
func TestKernelFramesAsked(t *testing.T) {
	ksymtest.Need(t)
	asking, tabled := newSymbolizer(t, Config{}), newTabled(t, "/")
	running, text := runningFunctions(t)
	var pcs []uint64
	for i := 0; i < len(running); i += len(running) / 500 {
		if f := running[i]; text.Start <= f.Start && f.Start < text.End {
			pcs = append(pcs, f.Start+f.Size/2)
		}
	}
	got, want := asking.KernelFrames(nil, pcs), tabled.KernelFrames(nil, pcs)
	names := ksymtest.SameStart(t)
	same := 0
	for i := range want {
		at := fmt.Sprintf("%#x", pcs[i])
		require.Equal(t, model.FrameKernel, got[i].Type, at)
		require.Equal(t, want[i].Mapping, got[i].Mapping, at)
		require.Equal(t, want[i].Address, got[i].Address, at)
		if functionOf(want[i]) == functionOf(got[i]) {
			same++
			continue
		}
		require.Contains(t, names[functionCovering(running, pcs[i]-min(1, uint64(i))).Start], functionOf(got[i]), at)
	}
	require.Greater(t, same, len(pcs)*9/10)
	require.Greater(t, len(pcs), 100)
	again := asking.KernelFrames(nil, pcs)
	for i := range got {
		require.Same(t, got[i], again[i])
	}
	require.Zero(t, asking.Stats().TableBytes, "/proc/kallsyms was not read")
	require.Positive(t, tabled.Stats().TableBytes)
	require.NoError(t, asking.KernelError())
}

// bpfAddress returns the address of the program of a name.
func bpfAddress(t *testing.T, name string) uint64 {
	t.Helper()
	running, _ := runningFunctions(t)
	for _, f := range running {
		if strings.HasPrefix(f.Name, "bpf_prog_") && strings.HasSuffix(f.Name, "_"+name) {
			return f.Start
		}
	}
	require.Fail(t, "/proc/kallsyms does not show the program", name)
	return 0
}

// TestKernelFramesUnasked checks that the table is read if the kernel cannot be asked.
func TestKernelFramesUnasked(t *testing.T) {
	s := newSymbolizer(t, Config{RootPath: ksymtest.Root(t, map[string]string{"proc/kallsyms": ksymtest.Kallsyms, "proc/modules": ""})})
	s.kernel.names.Open = func() (kernelsym.Asker, error) { return nil, errors.New("too old") }
	require.Equal(t, "do_one", functionOf(s.KernelFrames(nil, []uint64{0xffffffff81000110})[0]))
	require.NoError(t, s.KernelError())
}

// hiding asks the kernel as if it hid its addresses.
type hiding struct{ kernelsym.Asker }

func (hiding) Text() kernelsym.Span { return kernelsym.Span{} }

// TestKernelFramesHidden checks that there are names if the kernel hides its addresses.
func TestKernelFramesHidden(t *testing.T) {
	ksymtest.Need(t)
	s := newSymbolizer(t, Config{RootPath: ksymtest.Root(t, nil)}) // a table could not be read
	var text kernelsym.Span
	s.kernel.names.Open = func() (kernelsym.Asker, error) {
		k, err := kernelsym.Open()
		if err == nil {
			text = k.Text()
		}
		return hiding{k}, err
	}
	running, own := runningFunctions(t)
	sym := functionCovering(running, own.Start+(own.End-own.Start)/2)
	f := s.KernelFrames(nil, []uint64{sym.Start + 1, 1})
	require.True(t, text.Start <= sym.Start && sym.Start < text.End)
	require.Equal(t, sym.Name, functionOf(f[0]))
	require.EqualValues(t, 1, f[0].Address, "counts from the function")
	require.Equal(t, kernelsym.Kernel, f[0].Mapping.Path)
	require.Equal(t, &model.Frame{Type: model.FrameKernel}, f[1])
	require.NoError(t, s.KernelError())
	require.Empty(t, s.Stats().Errors)
}

// runningFunctions are the functions of the running kernel and the range of its own code.
func runningFunctions(t testing.TB) ([]kernelsym.Function, kernelsym.Span) {
	t.Helper()
	list, text, err := kernelsym.Functions("/")
	require.NoError(t, err)
	return list, text
}

// functionCovering finds the function of an address.
func functionCovering(sorted []kernelsym.Function, addr uint64) kernelsym.Function {
	i := sort.Search(len(sorted), func(i int) bool { return sorted[i].Start > addr }) - 1
	return sorted[i]
}

// refusing does not answer.
type refusing struct{ kernelsym.Asker }

func (refusing) Ask([]uint64, []kernelsym.Function) error {
	return fmt.Errorf("asking the kernel for names: %w", unix.ENOENT)
}

// TestKernelFramesAskFails checks that the table is used when the kernel does not answer any more.
func TestKernelFramesAskFails(t *testing.T) {
	ksymtest.Need(t)
	s := newSymbolizer(t, Config{RootPath: ksymtest.Root(t, map[string]string{"proc/kallsyms": ksymtest.Kallsyms, "proc/modules": ""})})
	s.KernelFrames(nil, nil)
	s.kernel.names.Open = func() (kernelsym.Asker, error) {
		k, err := kernelsym.Open()
		return refusing{k}, err
	}
	require.Equal(t, "do_one", functionOf(s.KernelFrames(nil, []uint64{0xffffffff81000110})[0]))
	require.ErrorContains(t, s.Stats().LastError, "asking the kernel for names: no such file or directory")
	require.Equal(t, map[reason.Name]uint64{reason.NameKernelUnknown: 1}, s.Stats().Errors)
}
