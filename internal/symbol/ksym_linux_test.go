// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// needKsyms skips where the kernel cannot be asked for names.
func needKsyms(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	var name unix.Utsname
	require.NoError(t, unix.Uname(&name))
	var major, minor int
	release := unix.ByteSliceToString(name.Release[:])
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	require.NoError(t, err, release)
	if major < 5 || major == 5 && minor < 16 {
		t.Skipf("Linux %s has no bpf_kallsyms_lookup_name, which came with 5.16", release)
	}
}

// runningTable is the truth about the running kernel.
func runningTable(t testing.TB) *kernelTable {
	t.Helper()
	p, err := newProcfs("/")
	require.NoError(t, err)
	table, err := p.kallsyms(1<<16, 1<<21)
	require.NoError(t, err)
	b, err := p.modules()
	require.NoError(t, err)
	modules, err := parseModules(b)
	require.NoError(t, err)
	table.settle(modules)
	return table
}

// loadProgram loads a program of which /proc/kallsyms shows the name.
func loadProgram(t testing.TB, name string) {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
}

// TestKsymsAgreeWithTable asks for the first and the last byte of every
// function that /proc/kallsyms shows, those of modules and of three BPF
// programs included; others' programs come and go meanwhile.
func TestKsymsAgreeWithTable(t *testing.T) {
	needKsyms(t)
	for range 3 {
		loadProgram(t, "agrees")
	}
	table := runningTable(t)
	names := sameStart(t)
	k, err := openKsyms()
	require.NoError(t, err)
	defer func() { require.NoError(t, k.close()) }()
	require.Equal(t, table.text, k.text)
	var others, cut, programs int
	for _, s := range table.symbols {
		want := table.function(s.addr)
		if want.module == "" && !table.text.contains(s.addr) || strings.HasPrefix(want.module, "__builtin__") {
			continue // data, and code that was freed after boot; and instructions that ftrace and kprobes make
		}
		if want.module == bpfModule && !strings.HasSuffix(want.name, "_agrees") {
			continue
		}
		var got [2]kernelFunction
		pcs := []uint64{s.addr, s.addr + uint64(s.size) - 1}
		if want.module == bpfModule {
			pcs[1] = s.addr // the table does not know how long the program is
		}
		require.NoError(t, k.ask(pcs, got[:]))
		if got[0].name == "" {
			padding := slices.ContainsFunc(names[s.addr], func(n string) bool { return isPadding([]byte(n)) })
			require.True(t, padding, "%s has no name", want.name)
			continue
		}
		require.Equal(t, want.start, got[0].start, want.name)
		if isBPF(got[0], k.text) {
			got[0].module = bpfModule
			programs++
		}
		require.Equal(t, want.module, got[0].module, want.name)
		if got[0].name != want.name {
			require.Contains(t, names[s.addr], got[0].name, "%#x", s.addr)
			others++
		}
		// What names no function may begin before the next function does; else padding follows.
		if got[0].module != bpfModule && got[1].name != "" && got[1].start != got[0].start {
			cut++
		}
	}
	t.Logf("%d functions: %d by another of their names, %d shorter; %d BPF programs", len(table.symbols), others, cut, programs)
	require.Equal(t, 3, programs)
	require.Less(t, others, len(table.symbols)/500)
}

// sameStart gives all names of each address where functions have several.
func sameStart(t *testing.T) map[uint64][]string {
	text, err := os.ReadFile("/proc/kallsyms")
	require.NoError(t, err)
	names := map[uint64][]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		addr, ok := parseHex([]byte(f[0]))
		require.True(t, ok, line)
		names[addr] = append(names[addr], f[2], strings.TrimPrefix(f[2], "__pi_"))
	}
	return names
}

func TestKsymsUnknown(t *testing.T) {
	needKsyms(t)
	k, err := openKsyms()
	require.NoError(t, err)
	defer func() { require.NoError(t, k.close()) }()
	pcs := make([]uint64, 3*ksymBatch+1) // several batches
	out := make([]kernelFunction, len(pcs))
	for i := range pcs {
		pcs[i] = uint64(i) * 4096 // of user space
	}
	pcs[50] = k.text.start + 0x100
	pcs[60] = 1<<64 - 1
	require.NoError(t, k.ask(pcs, out))
	for i, f := range out {
		require.Equal(t, i == 50, f.name != "", "%#x: %+v", pcs[i], f)
	}
}

// TestKernelFramesAsked holds that frames are the same whether the kernel is asked or the table read.
func TestKernelFramesAsked(t *testing.T) {
	needKsyms(t)
	asking, tabled := newSymbolizer(t, Config{}), newTabled(t, "/")
	table := runningTable(t)
	var pcs []uint64
	for i := 0; i < len(table.symbols); i += len(table.symbols) / 500 {
		if s := table.symbols[i]; table.text.contains(s.addr) {
			pcs = append(pcs, s.addr+uint64(s.size)/2)
		}
	}
	got, want := asking.KernelFrames(nil, pcs), tabled.KernelFrames(nil, pcs)
	names := sameStart(t)
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
		require.Contains(t, names[table.symbols[table.find(pcs[i]-min(1, uint64(i)))].addr], functionOf(got[i]), at)
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

// bpfAddress gives where the program of a name is.
func bpfAddress(t *testing.T, name string) uint64 {
	t.Helper()
	table := runningTable(t)
	for _, s := range table.symbols {
		if strings.HasPrefix(table.nameAt(s.name), "bpf_prog_") && strings.HasSuffix(table.nameAt(s.name), "_"+name) {
			return s.addr
		}
	}
	require.Fail(t, "/proc/kallsyms does not show the program", name)
	return 0
}

func TestKernelFramesOfPrograms(t *testing.T) {
	needKsyms(t)
	loadProgram(t, "framed")
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

	now = now.Add(bpfInterval / 2)
	require.NotSame(t, f, s.KernelFrames(nil, []uint64{addr + 1})[0])
	require.Same(t, f, s.KernelFrames(nil, []uint64{addr})[0])
	now = now.Add(bpfInterval)
	require.Equal(t, f, s.KernelFrames(nil, []uint64{addr})[0])
	s.KernelFrames(nil, []uint64{addr + 2})
	require.NotSame(t, f, s.KernelFrames(nil, []uint64{addr})[0], "another program may be there by now")
	require.Zero(t, s.Stats().TableBytes)
}

// TestKernelFramesByTable holds that what only the table knows is found there.
func TestKernelFramesByTable(t *testing.T) {
	needKsyms(t)
	root := fakeRoot(t, map[string]string{"proc/kallsyms": kallsymsText + "0000000000001000 t only_there\t[__builtin__ftrace]\n", "proc/modules": ""})
	s := newSymbolizer(t, Config{RootPath: root})
	f := s.KernelFrames(nil, []uint64{0x1010})[0]
	require.Equal(t, "only_there", functionOf(f))
	require.Equal(t, "[__builtin__ftrace]", f.Mapping.Path)
	require.EqualValues(t, 0x10, f.Address)
	require.EqualValues(t, 1, s.Stats().TablesBuilt)
}

// TestKernelFramesHidden holds that there are names where the kernel tells no addresses.
func TestKernelFramesHidden(t *testing.T) {
	needKsyms(t)
	s := newSymbolizer(t, Config{RootPath: fakeRoot(t, nil)}) // a table could not be read
	var text span
	s.openKsyms = func() (*ksyms, error) {
		k, err := openKsyms()
		if err == nil {
			text, k.text = k.text, span{}
		}
		return k, err
	}
	table := runningTable(t)
	sym := table.symbols[table.find(table.text.start+(table.text.end-table.text.start)/2)]
	f := s.KernelFrames(nil, []uint64{sym.addr + 1, 1})
	require.True(t, text.contains(sym.addr))
	require.Equal(t, table.nameAt(sym.name), functionOf(f[0]))
	require.EqualValues(t, 1, f[0].Address, "counts from the function")
	require.Equal(t, kernelName, f[0].Mapping.Path)
	require.Equal(t, &model.Frame{Type: model.FrameKernel}, f[1])
	require.NoError(t, s.KernelError())
	require.Empty(t, s.Stats().Errors)
}

// TestKernelFramesUnasked holds that the table is read where the kernel cannot be asked.
func TestKernelFramesUnasked(t *testing.T) {
	s := newSymbolizer(t, Config{RootPath: fakeRoot(t, map[string]string{"proc/kallsyms": kallsymsText, "proc/modules": ""})})
	s.openKsyms = func() (*ksyms, error) { return nil, errors.New("too old") }
	require.Equal(t, "do_one", functionOf(s.KernelFrames(nil, []uint64{0xffffffff81000110})[0]))
	require.NoError(t, s.KernelError())
}

// TestKernelFramesAskFails holds that the table takes over when the kernel does not answer any more.
func TestKernelFramesAskFails(t *testing.T) {
	needKsyms(t)
	s := newSymbolizer(t, Config{RootPath: fakeRoot(t, map[string]string{"proc/kallsyms": kallsymsText, "proc/modules": ""})})
	s.KernelFrames(nil, nil)
	s.openKsyms = func() (*ksyms, error) {
		k, err := openKsyms()
		require.NoError(t, err)
		program := k.program
		k.program, err = loadKsym("refuses", asm.Instructions{asm.Mov.Imm(asm.R0, -int32(unix.ENOENT)), asm.Return()})
		require.NoError(t, err)
		return k, program.Close()
	}
	require.Equal(t, "do_one", functionOf(s.KernelFrames(nil, []uint64{0xffffffff81000110})[0]))
	require.ErrorContains(t, s.Stats().LastError, "asking the kernel for names: no such file or directory")
	require.Equal(t, map[Reason]uint64{ReasonKernelUnknown: 1}, s.Stats().Errors)
}

func BenchmarkKsyms(b *testing.B) {
	needKsyms(b)
	k, err := openKsyms()
	require.NoError(b, err)
	defer func() { require.NoError(b, k.close()) }()
	pcs, out := make([]uint64, 8), make([]kernelFunction, 8)
	for i := range pcs {
		pcs[i] = k.text.start + uint64(i)<<16
	}
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, k.ask(pcs, out))
	}
}

// TestModuleMappings holds where a function that the kernel named counts from when modules come and go.
func TestModuleMappings(t *testing.T) {
	root := fakeRoot(t, map[string]string{
		"proc/modules":                            "nf 4096 1 - Live 0xffffffffc0100000\n",
		"sys/module/nf/notes/.note.gnu.build-id":  gnuNote("\x0a\x0b"),
		"sys/module/new/notes/.note.gnu.build-id": gnuNote("\x0c\x0d"),
	})
	s := newSymbolizer(t, Config{RootPath: root})
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	s.openKsyms = func() (*ksyms, error) { return &ksyms{text: span{0xffffffff81000000, 0xffffffff82000000}}, nil }
	s.beginKernel()
	at := func(module string, start uint64) (model.Mapping, uint64) {
		m, base := s.kernelMapping(kernelFunction{name: "fn", module: module, start: start, size: 0x10})
		return *m, base
	}
	m, base := at("", 0xffffffff81000100)
	require.Equal(t, model.Mapping{Limit: 0x1000000, Path: kernelName}, m)
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
	require.ErrorContains(t, s.Stats().LastError, "reading /proc/modules")
}
