// SPDX-License-Identifier: Apache-2.0

// Package ksymtest has what tests of the names of the kernel need.
package ksymtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
)

// Kallsyms is a small /proc/kallsyms.
const Kallsyms = `0000000000000000 A fixed_percpu_data
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

// Need skips if the kernel cannot be asked for names.
func Need(t testing.TB) {
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

// Load loads a program of which /proc/kallsyms shows the name.
func Load(t testing.TB, name string) {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SocketFilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
}

// SameStart returns all names of addresses with several functions.
func SameStart(t testing.TB) map[uint64][]string {
	text, err := os.ReadFile("/proc/kallsyms")
	require.NoError(t, err)
	names := map[uint64][]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		addr, ok := proc.ParseHex([]byte(f[0]))
		require.True(t, ok, line)
		names[addr] = append(names[addr], f[2], strings.TrimPrefix(f[2], "__pi_"))
	}
	return names
}

// Root makes a root directory with the files of /proc and /sys that hold
// the kernel's symbols.
func Root(t testing.TB, files map[string]string) string {
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

// GNUNote is an ELF note with a GNU build id.
func GNUNote(id string) string {
	return "\x04\x00\x00\x00" + string(rune(len(id))) + "\x00\x00\x00\x03\x00\x00\x00GNU\x00" + id
}
