// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/kernelsym/ksymtest"
)

// runningTable is the truth about the running kernel.
func runningTable(t testing.TB) *table {
	t.Helper()
	p := files{"/"}
	table, err := p.kallsyms(1<<16, 1<<21)
	require.NoError(t, err)
	b, err := p.modules()
	require.NoError(t, err)
	modules, err := parseModules(b)
	require.NoError(t, err)
	table.settle(modules)
	return table
}

// TestKsymsAgreeWithTable looks up the first and the last byte of every function that /proc/kallsyms shows, those of modules and of three BPF
// programs included; others' programs are loaded and unloaded meanwhile.
func TestKsymsAgreeWithTable(t *testing.T) {
	ksymtest.Need(t)
	for range 3 {
		ksymtest.Load(t, "agrees")
	}
	table := runningTable(t)
	names := ksymtest.SameStart(t)
	k, err := Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Close()) }()
	require.Equal(t, table.text, k.Text())
	var others, cut, programs int
	for _, s := range table.symbols {
		want := table.function(s.addr)
		if want.Module == "" && !table.text.contains(s.addr) || strings.HasPrefix(want.Module, "__builtin__") {
			continue // data, and code that was freed after boot; and instructions that ftrace and kprobes make
		}
		if want.Module == bpfModule && !strings.HasSuffix(want.Name, "_agrees") {
			continue
		}
		var got [2]Function
		pcs := []uint64{s.addr, s.addr + uint64(s.size) - 1}
		if want.Module == bpfModule {
			pcs[1] = s.addr // the table does not contain the length of the program
		}
		require.NoError(t, k.Ask(pcs, got[:]))
		if got[0].Name == "" {
			padding := slices.ContainsFunc(names[s.addr], func(n string) bool { return isPadding([]byte(n)) })
			require.True(t, padding, "%s has no name", want.Name)
			continue
		}
		require.Equal(t, want.Start, got[0].Start, want.Name)
		if isBPF(got[0], k.Text()) {
			got[0].Module = bpfModule
			programs++
		}
		require.Equal(t, want.Module, got[0].Module, want.Name)
		if got[0].Name != want.Name {
			require.Contains(t, names[s.addr], got[0].Name, "%#x", s.addr)
			others++
		}
		// A symbol that is no function may begin before the next function does; else padding follows.
		if got[0].Module != bpfModule && got[1].Name != "" && got[1].Start != got[0].Start {
			cut++
		}
	}
	t.Logf("%d functions: %d by another of their names, %d shorter; %d BPF programs", len(table.symbols), others, cut, programs)
	require.Equal(t, 3, programs)
	require.Less(t, others, len(table.symbols)/500)
}

func TestKsymsUnknown(t *testing.T) {
	ksymtest.Need(t)
	k, err := Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Close()) }()
	pcs := make([]uint64, 3*ksymBatch+1) // several batches
	out := make([]Function, len(pcs))
	for i := range pcs {
		pcs[i] = uint64(i) * 4096 // of user space
	}
	pcs[50] = k.Text().Start + 0x100
	pcs[60] = 1<<64 - 1
	require.NoError(t, k.Ask(pcs, out))
	for i, f := range out {
		require.Equal(t, i == 50, f.Name != "", "%#x: %+v", pcs[i], f)
	}
}

func BenchmarkKsyms(b *testing.B) {
	ksymtest.Need(b)
	k, err := Open()
	require.NoError(b, err)
	defer func() { require.NoError(b, k.Close()) }()
	pcs, out := make([]uint64, 8), make([]Function, 8)
	for i := range pcs {
		pcs[i] = k.Text().Start + uint64(i)<<16
	}
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, k.Ask(pcs, out))
	}
}

// TestModuleMappings checks the base of functions that the kernel named when modules are loaded and unloaded.
func TestModuleMappings(t *testing.T) {
	root := ksymtest.Root(t, map[string]string{
		"proc/modules":                            "nf 4096 1 - Live 0xffffffffc0100000\n",
		"sys/module/nf/notes/.note.gnu.build-id":  ksymtest.GNUNote("\x0a\x0b"),
		"sys/module/new/notes/.note.gnu.build-id": ksymtest.GNUNote("\x0c\x0d"),
	})
	now := time.Unix(1000, 0)
	var kept keeper
	k := New(root, &kept, 1<<20, func() time.Time { return now }, zap.NewNop())
	k.Open = func() (Asker, error) { return &Program{text: Span{0xffffffff81000000, 0xffffffff82000000}}, nil }
	k.Begin()
	at := func(module string, start uint64) (model.Mapping, uint64) {
		m, base := k.Mapping(Function{Name: "fn", Module: module, Start: start, Size: 0x10})
		return *m, base
	}
	m, base := at("", 0xffffffff81000100)
	require.Equal(t, model.Mapping{Limit: 0x1000000, Path: Kernel}, m)
	require.EqualValues(t, uint64(0xffffffff81000000), base)
	m, base = at("nf", 0xffffffffc0100100)
	require.Equal(t, model.Mapping{Limit: 4096, Path: "[nf]", BuildID: model.BuildID{GNU: "0a0b"}}, m)
	require.EqualValues(t, uint64(0xffffffffc0100000), base)

	require.NoError(t, os.WriteFile(root+"/proc/modules", []byte("nf 8192 1 - Live 0xffffffffc0400000\nnew 4096 0 - Live 0xffffffffc0200000\n"), 0o600))
	m, base = at("new", 0xffffffffc0200100)
	require.Equal(t, model.Mapping{Limit: 0x10, Path: "[new]"}, m, "the list was read just now: an image of its own")
	require.EqualValues(t, uint64(0xffffffffc0200100), base)
	now = now.Add(moduleInterval)
	m, base = at("new", 0xffffffffc0200100)
	require.Equal(t, model.Mapping{Limit: 4096, Path: "[new]", BuildID: model.BuildID{GNU: "0c0d"}}, m)
	require.EqualValues(t, uint64(0xffffffffc0200000), base)
	now = now.Add(moduleInterval)
	m, base = at("nf", 0xffffffffc0400000)
	require.Equal(t, model.Mapping{Limit: 8192, Path: "[nf]", BuildID: model.BuildID{GNU: "0a0b"}}, m, "it came back elsewhere")
	require.EqualValues(t, uint64(0xffffffffc0400000), base)

	require.NoError(t, os.WriteFile(root+"/proc/modules", []byte("nonsense\n"), 0o600))
	now = now.Add(moduleInterval)
	m, _ = at("bad", 0xffffffffc0300000)
	require.Equal(t, model.Mapping{Limit: 0x10, Path: "[bad]"}, m)
	require.ErrorContains(t, kept.failed, "reading /proc/modules")
}

// keeper keeps the last error.
type keeper struct{ failed error }

func (*keeper) KernelForgotten()         {}
func (k *keeper) KernelFailed(err error) { k.failed = err }
func (*keeper) KernelTable(int64)        {}

// TestAskFails has the program return an error.
func TestAskFails(t *testing.T) {
	ksymtest.Need(t)
	asker, err := Open()
	require.NoError(t, err)
	defer func() { require.NoError(t, asker.Close()) }()
	k := asker.(*Program)
	require.NoError(t, k.program.Close())
	k.program, err = loadKsym("refuses", asm.Instructions{asm.Mov.Imm(asm.R0, -int32(unix.ENOENT)), asm.Return()})
	require.NoError(t, err)
	require.EqualError(t, k.Ask([]uint64{1}, make([]Function, 1)), "asking the kernel for names: no such file or directory")
}

func BenchmarkKallsymsLoad(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root: /proc/kallsyms shows no addresses otherwise")
	}
	p := files{"/"}
	b.ReportAllocs()
	for b.Loop() {
		t, err := p.kallsyms(1<<16, 1<<21)
		require.NoError(b, err)
		t.settle(nil)
		b.ReportMetric(float64(t.bytes()), "table-bytes")
	}
}
