// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"debug/elf"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// uprobeDevice writes the device's files in sysfs.
func uprobeDevice(t *testing.T, kind, format string) string {
	t.Helper()
	root := t.TempDir()
	device := filepath.Join(root, "bus/event_source/devices/uprobe")
	require.NoError(t, os.MkdirAll(filepath.Join(device, "format"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(device, "type"), []byte(kind), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(device, "format/retprobe"), []byte(format), 0o644))
	return root
}

func TestNewUprobes(t *testing.T) {
	u, err := NewUprobes(uprobeDevice(t, "8\n", "config:0\n"))
	require.NoError(t, err)
	require.Equal(t, Uprobes{perfType: 8}, *u)
	for _, c := range [][3]string{
		{"eight", "config:0", "asking the kernel for uprobes (CONFIG_UPROBES): "},
		{"8", "config1:0", "asking the kernel for uprobes on returns: "},
		{"8", "config:64", "asking the kernel for uprobes on returns: "},
	} {
		_, err = NewUprobes(uprobeDevice(t, c[0], c[1]))
		require.ErrorContains(t, err, c[2])
	}
	_, err = NewUprobes(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
}

// neverOne and neverTwo are functions that are never called.
//
//go:noinline
func neverOne(n int) int { return n * 3 }

//go:noinline
func neverTwo(n int) int { return n / 3 }

// offsetOf is where a function begins in this program's file.
func offsetOf(t *testing.T, function func(int) int) uint64 {
	t.Helper()
	address := uint64(reflect.ValueOf(function).Pointer())
	file, err := elf.Open("/proc/self/exe")
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && address >= p.Vaddr && address < p.Vaddr+p.Filesz {
			return address - p.Vaddr + p.Off
		}
	}
	t.Skip("a position-independent test program")
	return 0
}

// TestAttachUprobe attaches to code of this program, and checks that errors name the place.
func TestAttachUprobe(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	u, err := NewUprobes("/sys")
	require.NoError(t, err)
	has, err := NewLoader().HasUprobeSession()
	require.NoError(t, err)
	type attach func(p *ebpf.Program, path string, offsets []uint64, pid uint32) (*Uprobe, error)
	by := func(kind UprobeKind) attach {
		return func(p *ebpf.Program, path string, offsets []uint64, pid uint32) (*Uprobe, error) {
			return u.Attach(kind, p, path, offsets, pid)
		}
	}
	together := func(as ebpf.AttachType) attach {
		return func(p *ebpf.Program, path string, offsets []uint64, pid uint32) (*Uprobe, error) {
			return u.AttachMulti(as, p, path, offsets, offsets, pid) // any cookies
		}
	}
	ways := map[ebpf.AttachType][]attach{ebpf.AttachNone: {by(UprobeEntry), by(UprobeReturn)}}
	if has {
		for _, as := range []ebpf.AttachType{AttachUprobeSession, ebpf.AttachTraceUprobeMulti} {
			ways[as] = []attach{together(as)}
		}
	}
	for as, list := range ways {
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "nothing", Type: ebpf.Kprobe, AttachType: as, License: "MIT",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
		})
		require.NoError(t, err)
		self, offsets := uint32(os.Getpid()), []uint64{offsetOf(t, neverOne), offsetOf(t, neverTwo)}
		for _, attach := range list {
			attached, err := attach(program, "/proc/self/exe", nil, self)
			require.NoError(t, err)
			require.Empty(t, attached.fds, "nothing to attach to")
			attached, err = attach(program, "/proc/self/exe", offsets, self)
			require.NoError(t, err)
			require.NotEmpty(t, attached.fds)
			require.NoError(t, attached.Close())
			require.NoError(t, attached.Close(), "a second time there is nothing to do")
			_, err = attach(program, "/no/such/file", offsets, self)
			require.ErrorIs(t, err, unix.ENOENT)
			require.ErrorContains(t, err, "/no/such/file")
		}
		require.NoError(t, program.Close())
	}
}
