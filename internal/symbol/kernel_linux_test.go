// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const kallsymsText = `0000000000000000 A fixed_percpu_data
ffffffff81000000 T srso_alias_untrain_ret
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t __pfx_do_one
ffffffff81000110 t do_one
ffffffff81000200 T __x64_sys_read
ffffffff81000200 T __ia32_sys_read
ffffffff81000300 W weak_one
ffffffff81000400 D not_text
ffffffff81001000 T _etext
ffffffff82000000 T _sinittext
ffffffff82000000 t init_one
ffffffff82000100 T _einittext
ffffffffc0100020 t mod_fn	[nf_tables]
ffffffffc0100000 t mod_first	[nf_tables]
ffffffffc0200000 t late_fn	[other]
ffffffffc0300000 t bpf_prog_0123456789abcdef_probe	[bpf]
ffffffffc0300400 t bpf_prog_fedcba9876543210_next	[bpf]
`

// fakeRoot makes a root directory with the files of /proc and /sys that hold
// the kernel's symbols.
func fakeRoot(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "proc"), 0o700))
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return root
}

// newTabled makes a Symbolizer that names kernel functions by the files of a
// root alone.
func newTabled(t testing.TB, root string) *Symbolizer {
	t.Helper()
	s := newSymbolizer(t, Config{RootPath: root})
	s.openKsyms = nil
	return s
}

func gnuNote(id string) string {
	return "\x04\x00\x00\x00" + string(rune(len(id))) + "\x00\x00\x00\x03\x00\x00\x00GNU\x00" + id
}

func TestKernelFrames(t *testing.T) {
	s := newTabled(t, fakeRoot(t, map[string]string{
		"proc/kallsyms":    kallsymsText,
		"proc/modules":     "nf_tables 4096 1 - Live 0xffffffffc0100000\nother 8192 0 - Live 0xffffffffc0200000 (OE)\n",
		"sys/kernel/notes": gnuNote("\x01\x02\x03\x04"),
		"sys/module/nf_tables/notes/.note.gnu.build-id": gnuNote("\x0a\x0b\x0c\x0d"),
	}))
	for _, c := range []struct {
		addr     uint64
		name     string
		mapping  string
		relative uint64
	}{
		{0xffffffff81000000, "srso_alias_untrain_ret", kernelName, 0},
		{0xffffffff81000110, "do_one", kernelName, 0x110},
		{0xffffffff810001ff, "do_one", kernelName, 0x1ff},
		{0xffffffff81000210, "__x64_sys_read", kernelName, 0x210},
		{0xffffffff81000fff, "weak_one", kernelName, 0xfff},
		{0xffffffff82000010, "init_one", kernelName, 0x1000010},
		{0xffffffffc0100010, "mod_first", "[nf_tables]", 0x10},
		{0xffffffffc0100fff, "mod_fn", "[nf_tables]", 0xfff},
		{0xffffffffc0201fff, "late_fn", "[other]", 0x1fff},
		{0xffffffffc0300010, "bpf_prog_0123456789abcdef_probe", "[bpf]", 0x10},
		{0xffffffffc0300410, "bpf_prog_fedcba9876543210_next", "[bpf]", 0x10},
	} {
		f := s.KernelFrames(nil, []uint64{c.addr, c.addr + 1})
		require.Same(t, f[0], f[1], "a return address counts less one")
		require.Equal(t, c.name, functionOf(f[0]))
		require.Equal(t, c.mapping, f[0].Mapping.Path)
		require.Equal(t, c.relative, f[0].Address)
		require.Equal(t, model.FrameKernel, f[0].Type)
	}
	for _, addr := range []uint64{0xffffffff81001000, 0xffffffff90000000, 0xffffffff82000100, 0xffffffffc0101000, 0xffffffffc0202000, 1, 0} {
		f := s.KernelFrames(nil, []uint64{addr})[0]
		require.Equal(t, &model.Frame{Type: model.FrameKernel}, f, "%#x tells nothing of where the kernel is", addr)
	}
	require.Equal(t, map[Reason]uint64{ReasonKernelUnknown: 7}, s.Stats().Unnamed)
	core := s.KernelFrames(nil, []uint64{0xffffffff81000110})[0].Mapping
	require.Equal(t, model.Mapping{Limit: 0x1000, Path: kernelName, BuildID: model.BuildID{GNU: "01020304"}}, *core)
	mod := s.KernelFrames(nil, []uint64{0xffffffffc0100010})[0].Mapping
	require.Equal(t, model.Mapping{Limit: 4096, Path: "[nf_tables]", BuildID: model.BuildID{GNU: "0a0b0c0d"}}, *mod)
	require.NoError(t, s.KernelError())
	require.EqualValues(t, 1, s.Stats().TablesBuilt)
}

func TestKernelHidden(t *testing.T) {
	hidden := ""
	for _, line := range strings.SplitAfter(kallsymsText, "\n") {
		if len(line) > 16 {
			hidden += "0000000000000000" + line[16:]
		}
	}
	s := newTabled(t, fakeRoot(t, map[string]string{
		"proc/kallsyms": hidden, "proc/sys/kernel/kptr_restrict": "2\n",
	}))
	require.NoError(t, s.KernelError(), "nothing was asked yet")
	f := s.KernelFrames(nil, []uint64{0xffffffff81000110, 0xffffffff81000210})
	require.Same(t, f[0], f[1])
	require.Empty(t, f[0].Lines)
	require.Zero(t, f[0].Address)
	require.Equal(t, kernelName, f[0].Mapping.Path)
	require.Equal(t, map[Reason]uint64{ReasonKernelHidden: 2}, s.Stats().Unnamed)
	require.Equal(t, map[Reason]uint64{ReasonKernelHidden: 1}, s.Stats().Errors)
	require.ErrorContains(t, s.KernelError(), "kptr_restrict is 2): grant CAP_SYSLOG")
}

func TestKernelAbsent(t *testing.T) {
	s := newTabled(t, fakeRoot(t, nil))
	f := s.KernelFrames(nil, []uint64{0xffffffff81000110})[0]
	require.Empty(t, f.Lines)
	require.ErrorIs(t, s.KernelError(), os.ErrNotExist)
	require.ErrorContains(t, s.KernelError(), "proc/kallsyms")
}

func TestKernelReload(t *testing.T) {
	root := fakeRoot(t, map[string]string{"proc/kallsyms": kallsymsText, "proc/modules": ""})
	s := newTabled(t, root)
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	const addr = 0xffffffffd0000010
	name := func() string { return functionOf(s.KernelFrames(nil, []uint64{addr})[0]) }
	require.Empty(t, name())
	now = now.Add(2 * moduleInterval)
	require.Empty(t, name())
	require.EqualValues(t, 1, s.Stats().TablesBuilt, "the list of modules is as it was")

	write := func(file, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(root, "proc", file), []byte(text), 0o600))
	}
	write("modules", "fresh 4096 0 - Live 0xffffffffd0000000\n")
	write("kallsyms", kallsymsText+"ffffffffd0000000 t fresh_fn\t[fresh]\n")
	now = now.Add(2 * moduleInterval)
	require.Equal(t, "fresh_fn", name())
	require.EqualValues(t, 2, s.Stats().TablesBuilt)

	write("kallsyms", kallsymsText+"ffffffffe0000000 t bpf_prog_1_new\t[bpf]\n")
	now = now.Add(bpfInterval / 2)
	f := s.KernelFrames(nil, []uint64{0xffffffffe0000010})[0]
	require.Empty(t, f.Lines, "too early")
	now = now.Add(bpfInterval)
	f = s.KernelFrames(nil, []uint64{0xffffffffe0000010})[0]
	require.Equal(t, "bpf_prog_1_new", functionOf(f))
}

// TestKernelReal checks each text symbol of the running kernel.
func TestKernelReal(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: /proc/kallsyms shows no addresses otherwise")
	}
	text, err := os.ReadFile("/proc/kallsyms")
	require.NoError(t, err)
	s := newTabled(t, "/")
	names := map[uint64][]string{}
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) == 3 && strings.ContainsAny(f[1], "tTwW") && !strings.HasPrefix(f[2], "__pfx_") {
			addr, err := strconv.ParseUint(f[0], 16, 64)
			require.NoError(t, err)
			names[addr] = append(names[addr], f[2])
		}
	}
	require.Greater(t, len(names), 10000)
	landmarks := map[string]bool{"_text": true, "_stext": true, "_etext": true, "_sinittext": true, "_einittext": true}
	for addr, all := range names {
		f := s.KernelFrames(nil, []uint64{addr})[0]
		if functionOf(f) == "" && !slices.ContainsFunc(all, func(name string) bool { return !landmarks[name] }) {
			continue // no function begins there
		}
		if len(all) == 1 && landmarks[all[0]] {
			continue
		}
		require.Contains(t, all, functionOf(f), "%#x", addr)
		require.Less(t, f.Address, uint64(1)<<32)
	}
	st := s.Stats()
	require.Less(t, st.TableBytes, int64(6<<20))
	t.Logf("%d symbols, table of %d bytes", len(names), st.TableBytes)
	require.NotEmpty(t, s.kernel.whole.BuildID.GNU)
}

func TestParseKallsymsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "no symbols at all",
		"garbage\n":                        "want ADDRESS TYPE NAME",
		"zzzz T name\n":                    "address",
		"ffffffff81000000 T cut":           "has no end",
		strings.Repeat("x", 70<<10) + "\n": "has more than",
		"00000000 T a\n00000000 T b\n":     errHidden.Error(),
	} {
		_, err := parseKallsyms(strings.NewReader(text), 0, 0)
		require.ErrorContains(t, err, want)
	}
}

func FuzzKallsyms(f *testing.F) {
	f.Add(kallsymsText, uint64(0xffffffff81000110))
	f.Add("ffffffff81000000 t a\n0000000000000001 t b\t[m]\nffffffffffffffff W c\t[bpf]\n", uint64(1))
	f.Add("ffffffffffffffff T _etext\n1 t \t[]\n1 t x\n", uint64(1)<<63)
	f.Fuzz(func(t *testing.T, text string, addr uint64) {
		table, err := parseKallsyms(strings.NewReader(text), 0, 0)
		if err != nil {
			return
		}
		table.settle(map[string]span{"m": {0, 1 << 40}})
		if i := table.find(addr); i >= 0 {
			require.LessOrEqual(t, table.symbols[i].addr, addr)
			table.nameAt(table.symbols[i].name)
			table.ownerOf(i)
		}
	})
}

func FuzzModules(f *testing.F) {
	f.Add([]byte("nf_tables 4096 1 - Live 0xffffffffc0100000 (OE)\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		modules, err := parseModules(b)
		if err != nil {
			return
		}
		for _, m := range modules {
			require.Less(t, m.start, m.end)
		}
	})
}

func BenchmarkKallsymsLoad(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root: /proc/kallsyms shows no addresses otherwise")
	}
	p, err := newProcfs("/")
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		t, err := p.kallsyms(1<<16, 1<<21)
		require.NoError(b, err)
		t.settle(nil)
		b.ReportMetric(float64(t.bytes()), "table-bytes")
	}
}
