// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package tls

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

func find(t *testing.T, path string) (Found, error) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // only read
	stat, err := file.Stat()
	require.NoError(t, err)
	return Find(elfimage.Image{Src: file, Size: uint64(stat.Size())})
}

// TestFindInGo checks that the methods of a stripped program of Go are found, and that the offsets of returns are those of instructions which
// return.
func TestFindInGo(t *testing.T) {
	path := testbin.Go(t, "../observe/network/testdata/gotls")
	found, err := find(t, path)
	require.NoError(t, err)
	require.Equal(t, Go, found.Library)
	calls := map[string]Call{}
	code, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, f := range found.Functions {
		calls[f.Name] = f.Call
		require.NotEmpty(t, f.Returns, f.Name)
		for _, at := range f.Returns {
			require.Greater(t, at, f.Offset, f.Name)
			if machine == elf.EM_X86_64 {
				require.EqualValues(t, 0xc3, code[at], "%s returns at %#x", f.Name, at)
			} else {
				require.Equal(t, []byte{0xc0, 0x03, 0x5f, 0xd6}, code[at:at+4], "%s returns at %#x", f.Name, at)
			}
		}
	}
	require.Equal(t, goTLS, calls)
}

// TestFindInGoLinkedByAnother checks that the methods are found if the linker has made the table of functions a part of another section, as
// lld does: the test removes the section's name.
func TestFindInGoLinkedByAnother(t *testing.T) {
	objcopy, err := exec.LookPath("objcopy")
	if err != nil {
		t.Skip("objcopy (Debian's binutils) is not installed: the table's name cannot be taken away")
	}
	path := testbin.Go(t, "../observe/network/testdata/gotls")
	want, err := find(t, path)
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "other")
	out, err := exec.Command(objcopy, "--rename-section", ".gopclntab=.other", path, other).CombinedOutput()
	require.NoError(t, err, "%s", out)
	got, err := find(t, other)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestReturnsAgreeWithObjdump checks that a breakpoint would be set behind the branch with which a method checks its stack, and on each
// instruction by which it returns. Another disassembler is the truth, for a program that is built here, and for the Go command as it was
// installed.
func TestReturnsAgreeWithObjdump(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("objdump (Debian's binutils) is not installed: there is no other disassembler to compare with")
	}
	paths := []string{testbin.Go(t, "../observe/network/testdata/gotls")}
	if command, err := exec.LookPath("go"); err == nil {
		paths = append(paths, command)
	}
	for _, path := range paths {
		found, err := find(t, path)
		require.NoError(t, err)
		require.Equal(t, Go, found.Library, path)
		file, err := elf.Open(path)
		require.NoError(t, err)
		entries := goEntries(t, path)
		for _, f := range found.Functions {
			base := addressOf(t, file, f.Offset) - f.Offset
			last := base + f.Returns[len(f.Returns)-1]
			out, err := exec.Command(objdump, "-d", "--no-show-raw-insn",
				fmt.Sprintf("--start-address=%#x", entries[f.Name]), fmt.Sprintf("--stop-address=%#x", last+1), path).Output()
			require.NoError(t, err)
			begins, before, returns := false, "", []uint64{}
			for line := range strings.Lines(string(out)) {
				at, text, ok := strings.Cut(strings.TrimSpace(line), ":	")
				address, err := strconv.ParseUint(at, 16, 64)
				if !ok || err != nil {
					continue
				}
				if address == base+f.Offset {
					begins = true
					require.Equal(t, stackBranch, strings.Fields(before)[0], "%s of %s", f.Name, path)
				}
				before = text
				if strings.HasPrefix(text, "ret") {
					returns = append(returns, address-base)
				}
			}
			require.True(t, begins, "%s of %s", f.Name, path)
			require.Equal(t, returns, f.Returns, "%s of %s", f.Name, path)
		}
		require.NoError(t, file.Close())
	}
}

// stackBranch is by which a function of Go leaves the check of its stack, as objdump writes it.
var stackBranch = map[elf.Machine]string{elf.EM_X86_64: "jbe", elf.EM_AARCH64: "b.ls"}[machine]

// goEntries are the addresses of the methods of tls.Conn.
func goEntries(t *testing.T, path string) map[string]uint64 {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // only read
	stat, err := file.Stat()
	require.NoError(t, err)
	parsed, err := elfimage.Parse(elfimage.Image{Src: file, Size: uint64(stat.Size())})
	require.NoError(t, err)
	sections, err := parsed.Sections()
	require.NoError(t, err)
	entries := map[string]uint64{}
	_, err = parsed.EachGoFunction(sections, make([]byte, readBytes), maxGoTable, func(name string, entry, _ uint64) {
		if _, ok := goTLS[name]; ok {
			entries[name] = entry
		}
	})
	require.NoError(t, err)
	return entries
}

// addressOf is where an offset in the file is mapped.
func addressOf(t *testing.T, file *elf.File, offset uint64) uint64 {
	t.Helper()
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && offset >= p.Off && offset < p.Off+p.Filesz {
			return offset - p.Off + p.Vaddr
		}
	}
	require.Fail(t, "no segment has it", "%#x", offset)
	return 0
}

// TestFindInLibraries checks that the functions of installed libraries are at the addresses that debug/elf reads from their symbols.
func TestFindInLibraries(t *testing.T) {
	for _, c := range []struct {
		pattern string
		library Library
		names   map[string]Call
	}{
		{"/usr/lib/*/libssl.so.3", OpenSSL, openSSL},
		{"/usr/lib/*/libgnutls.so.30", GnuTLS, gnuTLS},
		{"/usr/bin/node", Node, openSSL},
		{"/usr/lib/jvm/*/lib/server/libjvm.so", Java, nil},
	} {
		t.Run(string(c.library), func(t *testing.T) {
			paths, err := filepath.Glob(c.pattern)
			require.NoError(t, err)
			if len(paths) == 0 {
				t.Skipf("%s is not installed", c.pattern)
			}
			found, err := find(t, paths[0])
			require.NoError(t, err)
			require.Equal(t, c.library, found.Library)
			file, err := elf.Open(paths[0])
			require.NoError(t, err)
			defer file.Close() //nolint:errcheck // only read
			symbols, err := file.DynamicSymbols()
			require.NoError(t, err)
			want := map[string]uint64{}
			for _, s := range symbols {
				if _, ok := c.names[s.Name]; ok && s.Section != elf.SHN_UNDEF {
					want[s.Name] = offsetOf(t, file, s.Value)
				}
			}
			require.Len(t, want, len(c.names))
			got := map[string]uint64{}
			for _, f := range found.Functions {
				require.Equal(t, c.names[f.Name], f.Call, f.Name)
				require.Nil(t, f.Returns)
				got[f.Name] = f.Offset
			}
			require.Equal(t, want, got)
		})
	}
}

func offsetOf(t *testing.T, file *elf.File, address uint64) uint64 {
	t.Helper()
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && address >= p.Vaddr && address < p.Vaddr+p.Filesz {
			return address - p.Vaddr + p.Off
		}
	}
	require.Fail(t, "no segment has it", "%#x", address)
	return 0
}

// TestFindNothing checks that nothing is found in a file without a TLS library, and that a file which is no binary is an error.
func TestFindNothing(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	found, err := find(t, self) // a program of Go without crypto/tls
	require.NoError(t, err)
	require.Zero(t, found)
	_, err = Find(elfimage.Image{Src: bytes.NewReader(make([]byte, 100)), Size: 100})
	require.Error(t, err)
}

// TestFindRustls checks that rustls is found in a program which has functions of OpenSSL, too.
func TestFindRustls(t *testing.T) {
	for flag, want := range map[string]bool{"-DRUSTLS": true, "-UNONE": false} {
		found, err := find(t, testbin.C(t, "testdata/two.c", flag, "-rdynamic"))
		require.NoError(t, err)
		require.Equal(t, OpenSSL, found.Library, flag)
		require.Len(t, found.Functions, 2, flag)
		require.Equal(t, want, found.Rustls, flag)
	}
}
