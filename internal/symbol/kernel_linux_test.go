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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/kernelsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/kernelsym/ksymtest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

func TestKernelFrames(t *testing.T) {
	s := newTabled(t, ksymtest.Root(t, map[string]string{
		"proc/kallsyms":    ksymtest.Kallsyms,
		"proc/modules":     "nf_tables 4096 1 - Live 0xffffffffc0100000\nother 8192 0 - Live 0xffffffffc0200000 (OE)\n",
		"sys/kernel/notes": ksymtest.GNUNote("\x01\x02\x03\x04"),
		"sys/module/nf_tables/notes/.note.gnu.build-id": ksymtest.GNUNote("\x0a\x0b\x0c\x0d"),
	}))
	for _, c := range []struct {
		addr     uint64
		name     string
		mapping  string
		relative uint64
	}{
		{0xffffffff81000000, "srso_alias_untrain_ret", kernelsym.Kernel, 0},
		{0xffffffff81000110, "do_one", kernelsym.Kernel, 0x110},
		{0xffffffff810001ff, "do_one", kernelsym.Kernel, 0x1ff},
		{0xffffffff81000210, "__x64_sys_read", kernelsym.Kernel, 0x210},
		{0xffffffff81000fff, "weak_one", kernelsym.Kernel, 0xfff},
		{0xffffffff82000010, "init_one", kernelsym.Kernel, 0x1000010},
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
		require.Equal(t, &model.Frame{Type: model.FrameKernel}, f, "%#x does not show where the kernel is", addr)
	}
	require.Equal(t, map[reason.Name]uint64{reason.NameKernelUnknown: 7}, s.Stats().Unnamed)
	core := s.KernelFrames(nil, []uint64{0xffffffff81000110})[0].Mapping
	require.Equal(t, model.Mapping{Limit: 0x1000, Path: kernelsym.Kernel, BuildID: model.BuildID{GNU: "01020304"}}, *core)
	mod := s.KernelFrames(nil, []uint64{0xffffffffc0100010})[0].Mapping
	require.Equal(t, model.Mapping{Limit: 4096, Path: "[nf_tables]", BuildID: model.BuildID{GNU: "0a0b0c0d"}}, *mod)
	require.NoError(t, s.KernelError())
	require.EqualValues(t, 1, s.Stats().TablesBuilt)
}

func TestKernelHidden(t *testing.T) {
	hidden := ""
	for _, line := range strings.SplitAfter(ksymtest.Kallsyms, "\n") {
		if len(line) > 16 {
			hidden += "0000000000000000" + line[16:]
		}
	}
	s := newTabled(t, ksymtest.Root(t, map[string]string{
		"proc/kallsyms": hidden, "proc/sys/kernel/kptr_restrict": "2\n",
	}))
	require.NoError(t, s.KernelError(), "nothing was asked yet")
	f := s.KernelFrames(nil, []uint64{0xffffffff81000110, 0xffffffff81000210})
	require.Same(t, f[0], f[1])
	require.Empty(t, f[0].Lines)
	require.Zero(t, f[0].Address)
	require.Equal(t, kernelsym.Kernel, f[0].Mapping.Path)
	require.Equal(t, map[reason.Name]uint64{reason.NameKernelHidden: 2}, s.Stats().Unnamed)
	require.Equal(t, map[reason.Name]uint64{reason.NameKernelHidden: 1}, s.Stats().Errors)
	require.ErrorContains(t, s.KernelError(), "kptr_restrict is 2): grant CAP_SYSLOG")
}

func TestKernelAbsent(t *testing.T) {
	s := newTabled(t, ksymtest.Root(t, nil))
	f := s.KernelFrames(nil, []uint64{0xffffffff81000110})[0]
	require.Empty(t, f.Lines)
	require.ErrorIs(t, s.KernelError(), os.ErrNotExist)
	require.ErrorContains(t, s.KernelError(), "proc/kallsyms")
}

func TestKernelReload(t *testing.T) {
	root := ksymtest.Root(t, map[string]string{"proc/kallsyms": ksymtest.Kallsyms, "proc/modules": ""})
	s := newTabled(t, root)
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	const addr = 0xffffffffd0000010
	name := func() string { return functionOf(s.KernelFrames(nil, []uint64{addr})[0]) }
	require.Empty(t, name())
	now = now.Add(2 * time.Second)
	require.Empty(t, name())
	require.EqualValues(t, 1, s.Stats().TablesBuilt, "the list of modules is as it was")

	write := func(file, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(root, "proc", file), []byte(text), 0o600))
	}
	write("modules", "fresh 4096 0 - Live 0xffffffffd0000000\n")
	write("kallsyms", ksymtest.Kallsyms+"ffffffffd0000000 t fresh_fn\t[fresh]\n")
	now = now.Add(2 * time.Second)
	require.Equal(t, "fresh_fn", name())
	require.EqualValues(t, 2, s.Stats().TablesBuilt)

	write("kallsyms", ksymtest.Kallsyms+"ffffffffe0000000 t bpf_prog_1_new\t[bpf]\n")
	now = now.Add(time.Minute / 2)
	f := s.KernelFrames(nil, []uint64{0xffffffffe0000010})[0]
	require.Empty(t, f.Lines, "too early")
	now = now.Add(time.Minute)
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
	require.NotEmpty(t, s.kernel.names.Whole().BuildID.GNU)
}

// newTabled makes a Symbolizer that names kernel functions by the files of a root alone.
func newTabled(t testing.TB, root string) *Symbolizer {
	t.Helper()
	s := newSymbolizer(t, Config{RootPath: root})
	s.kernel.names.Open = nil
	return s
}
