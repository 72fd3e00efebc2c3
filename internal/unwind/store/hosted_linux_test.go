// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package store

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"
)

// hostedChunks is the capacity of the files of these tests, in chunks.
const hostedChunks = 64

// hosted is a store whose memory is a file that a program maps; see testdata/hosted.h.
type hosted struct {
	*Store
	path   string
	shared []byte
	kernel Mapping // the vDSO in the process that space() has listed
}

// newHosted makes a hosted store.
func newHosted(t *testing.T) *hosted {
	t.Helper()
	const size = hostedChunks*chunkBytes + maxRules*ruleBytes
	h := &hosted{path: filepath.Join(t.TempDir(), "tables")}
	file, err := os.OpenFile(h.path, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	require.NoError(t, file.Truncate(size))
	h.shared, err = unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	t.Cleanup(func() { require.NoError(t, unix.Munmap(h.shared)) })
	h.Store = newStore(memory{
		grow:   func(id uint16) ([]byte, error) { return h.shared[int(id)*chunkBytes:][:chunkBytes], nil },
		rules:  h.shared[hostedChunks*chunkBytes:],
		settle: func() error { return nil },
	}, hostedChunks-1)
	return h
}

// table is Acquire of a file's table.
func (h *hosted) table(t *testing.T, path string) *Binary {
	t.Helper()
	b, err := h.Acquire(path, func() (*unwind.Table, error) {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		return buildTable(t, data), nil
	})
	require.NoError(t, err)
	return b
}

// buildTable makes the table of an image in memory.
func buildTable(t *testing.T, data []byte) *unwind.Table {
	t.Helper()
	table, err := unwind.Build(elfimage.Image{Src: bytes.NewReader(data), Size: uint64(len(data))}, unwind.Limits{})
	require.NoError(t, err)
	require.NoError(t, table.Err)
	return table
}

// hostedProgram compiles a program that includes the unwinder; without a compiler the test is skipped.
func hostedProgram(t *testing.T, name string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	gcc(t, append(flags, "-O2", "-Wall", "-Wextra", "-Werror", "-o", path, filepath.Join("testdata", name+".c"))...)
	return path
}

func gcc(t *testing.T, args ...string) {
	t.Helper()
	compile(t, "gcc", args...)
}

func compile(t *testing.T, compiler string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skipf("%s is not installed: %v", compiler, err)
	}
	out, err := exec.Command(compiler, args...).CombinedOutput()
	require.NoError(t, err, "%s %s\n%s", compiler, strings.Join(args, " "), out)
}

// space lists the mappings of a running process, a small version of what the symbolizer does.
func (h *hosted) space(t *testing.T, pid int) *Space {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	require.NoError(t, err)
	var list []Mapping
	for line := range strings.Lines(string(maps)) {
		var m Mapping
		var offset uint64
		var flags, device, path string
		var inode int
		_, _ = fmt.Sscanf(line, "%x-%x %s %x %s %d %s", &m.Start, &m.End, &flags, &offset, &device, &inode, &path) // some have no path
		switch {
		case !strings.Contains(flags, "x"):
			continue
		case path == "[vdso]":
			m.Bias, m.Binary = m.Start, h.vdso(t, pid, m)
			h.kernel = m
		case inode == 0:
			continue
		default:
			m.Bias, m.Binary = m.Start-vaddrOf(t, path, offset), h.table(t, path)
		}
		list = append(list, m)
	}
	space, err := h.NewSpace(list)
	require.NoError(t, err)
	require.Zero(t, space.Skipped)
	return space
}

// vdso makes the table of the vDSO.
func (h *hosted) vdso(t *testing.T, pid int, m Mapping) *Binary {
	t.Helper()
	b, err := h.Acquire("[vdso]", func() (*unwind.Table, error) {
		memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		require.NoError(t, err)
		data := make([]byte, m.End-m.Start)
		_, err = memory.ReadAt(data, int64(m.Start))
		require.NoError(t, err)
		require.NoError(t, memory.Close())
		return buildTable(t, data), nil
	})
	require.NoError(t, err)
	return b
}

// vaddrOf is the virtual address of the byte at an offset of an ELF file.
func vaddrOf(t *testing.T, path string, offset uint64) uint64 {
	t.Helper()
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Off&^4095 <= offset && offset < p.Off+p.Filesz {
			return p.Vaddr&^4095 + offset - p.Off&^4095
		}
	}
	require.Fail(t, "no segment", "%s, offset %#x", path, offset)
	return 0
}
