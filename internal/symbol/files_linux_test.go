// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/patience"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

func TestDeletedFile(t *testing.T) {
	bin := toolchain.CompileC(t, programC, "target")
	p := start(t, bin)
	require.NoError(t, os.Remove(bin))
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	f := a.Frames(nil, []uint64{p.functions["hidden"]})[0]
	require.Equal(t, "hidden", functionOf(f))
	require.Equal(t, bin, f.Mapping.Path, "without the kernel's remark")
}

// TestFileCalledDeleted runs a program whose name ends with the kernel's suffix for removed files, before and after it is removed, and one
// that was removed while another file has the name that the kernel shows.
func TestFileCalledDeleted(t *testing.T) {
	bin := toolchain.CompileC(t, programC, "target")
	called := bin + deletedSuffix
	toolchain.Run(t, "cp", bin, called)
	p := start(t, called)
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	require.Equal(t, called, a.Frames(nil, []uint64{p.functions["hidden"]})[0].Mapping.Path)
	require.NoError(t, os.Remove(called))
	require.NoError(t, a.Refresh())
	f := a.Frames(nil, []uint64{p.functions["visible"]})[0]
	require.Equal(t, called, f.Mapping.Path, "without the kernel's remark, and that alone")
	for _, r := range a.Regions() {
		require.NotEqual(t, bin, r.Path())
	}

	other := newSymbolizer(t, Config{}) // one that does not know that content yet
	gone := start(t, bin)
	require.NoError(t, os.Remove(bin))
	toolchain.Run(t, "cp", "/bin/true", called)
	b := openSpace(t, other, gone.pid())
	f = b.Frames(nil, []uint64{gone.functions["hidden"]})[0]
	require.Equal(t, "hidden", functionOf(f))
	require.Equal(t, bin, f.Mapping.Path)
}

// TestReplacedFile runs two builds from one path: each keeps its own names.
func TestReplacedFile(t *testing.T) {
	first := toolchain.CompileC(t, programC, "target")
	second := toolchain.CompileC(t, strings.ReplaceAll(programC, "hidden", "secret_function"), "target")
	p1 := start(t, first)
	require.NoError(t, os.Rename(second, first))
	p2 := start(t, first)
	s := newSymbolizer(t, Config{})
	a1, a2 := openSpace(t, s, p1.pid()), openSpace(t, s, p2.pid())
	f1 := a1.Frames(nil, []uint64{p1.functions["hidden"]})[0]
	f2 := a2.Frames(nil, []uint64{p2.functions["secret_function"]})[0]
	require.Equal(t, "hidden", functionOf(f1))
	require.Equal(t, "secret_function", functionOf(f2))
	require.Equal(t, f1.Mapping.Path, f2.Mapping.Path)
	require.NotEqual(t, f1.Mapping.BuildID, f2.Mapping.BuildID)
}

// TestShared has one binary in two processes, and a copy of it under the same path, as another
// container has: all share tables and frames.
func TestShared(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes a mount namespace")
	}
	bin := toolchain.CompileC(t, programC, "target")
	copied := filepath.Join(t.TempDir(), "copy")
	toolchain.Run(t, "cp", bin, copied)
	s := newSymbolizer(t, Config{})
	var frames []*model.Frame
	for _, command := range [][]string{{bin}, {bin}, {"unshare", "--mount", "sh", "-e", "-c", `mount --bind "$1" "$0"; exec "$0"`, bin, copied}} {
		p := start(t, command[0], command[1:]...)
		a := openSpace(t, s, p.pid())
		a.Frames(nil, []uint64{p.functions["visible"]})
		require.True(t, s.AwaitLines(time.Minute)) // then it is known that its root has no debug file
		frames = a.Frames(frames, []uint64{p.functions["visible"]})
	}
	require.Same(t, frames[0], frames[1])
	require.Same(t, frames[0], frames[2])
	require.EqualValues(t, 1, s.Stats().TablesBuilt)
}

// TestWithoutLinks finds files by name, as without CAP_SYS_ADMIN.
func TestWithoutLinks(t *testing.T) {
	bin := toolchain.CompileC(t, programC, "target")
	p := start(t, bin)
	d, err := procfs{root: "/"}.dir(model.ProcessID{PID: uint32(p.pid())})
	require.NoError(t, err)
	defer d.close()
	entries, err := d.maps()
	require.NoError(t, err)
	var st unix.Stat_t
	require.NoError(t, unix.Stat(bin, &st))
	for i := range entries {
		e := &entries[i]
		if e.ino == 0 {
			continue
		}
		e.start++ // no such link in map_files
		c, err := d.locate(e)
		require.NoError(t, err, e.path)
		require.Equal(t, e.ino, c.key().ino)
		src, err := c.open()
		require.NoError(t, err)
		require.NoError(t, src.Close())
		require.NoError(t, c.close())
	}
	e := mapEntry{start: 1, end: 2, ino: st.Ino + 1, path: bin}
	_, err = d.locate(&e)
	require.ErrorIs(t, err, errOtherFile)
	require.ErrorContains(t, err, bin)
}

// TestWithoutLinksInRoot finds by name a library in a root that the process has changed to: maps shows its path from outside.
func TestWithoutLinksInRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: chroot(2)")
	}
	root := t.TempDir()
	code, err := os.ReadFile(toolchain.CompileC(t, programC, "target", "-static"))
	require.NoError(t, err)
	library := filepath.Join(root, "library.so")
	for _, path := range []string{filepath.Join(root, "target"), library} {
		require.NoError(t, os.WriteFile(path, code, 0o755))
	}
	p := start(t, "chroot", root, "/target")
	d, err := procfs{root: "/"}.dir(model.ProcessID{PID: uint32(p.pid())})
	require.NoError(t, err)
	defer d.close()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(library, &st))
	c, err := d.locate(&mapEntry{start: 1, end: 2, dev: st.Dev, ino: st.Ino, path: library})
	require.NoError(t, err)
	require.Equal(t, st.Ino, c.key().ino)
	require.NoError(t, c.close())
}

// TestRootEscape has a link in the process's root that leads out of it.
func TestRootEscape(t *testing.T) {
	p := start(t, toolchain.CompileC(t, programC, "target"))
	d, err := procfs{root: "/"}.dir(model.ProcessID{PID: uint32(p.pid())})
	require.NoError(t, err)
	defer d.close()
	_, err = d.openInRoot("/proc/self/root/etc/passwd")
	require.ErrorIs(t, err, unix.ELOOP, "magic links are not followed")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink("../../../../../../../../etc/passwd", link))
	fd, err := d.openInRoot(link)
	require.NoError(t, err, "leads to the root's own file")
	require.NoError(t, unix.Close(fd))
}

// TestMountNamespace runs a binary from a tmpfs that only its own namespace
// and root have.
func TestMountNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes a mount namespace")
	}
	bin := toolchain.CompileC(t, programC, "target", "-static")
	want := symbolsOf(t, bin)
	dir := t.TempDir()
	script := `mount -t tmpfs none "$0" && mkdir "$0/app" && cp "$1" "$0/app/inner" && exec chroot "$0" /app/inner`
	p := start(t, "unshare", "--mount", "sh", "-c", script, dir, bin)
	_, err := os.Stat(filepath.Join(dir, "app"))
	require.ErrorIs(t, err, os.ErrNotExist, "not visible from here")
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	f := a.Frames(nil, []uint64{p.functions["hidden"]})[0]
	require.Equal(t, "hidden", functionOf(f))
	require.Equal(t, want["hidden"], f.Address)

	d, err := s.proc.dir(model.ProcessID{PID: uint32(p.pid())})
	require.NoError(t, err)
	defer d.close()
	fd, err := d.openInRoot("/app/inner")
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
}

func TestProcessGone(t *testing.T) {
	s := newSymbolizer(t, Config{})
	cmd := exec.Command("true")
	require.NoError(t, cmd.Run())
	_, err := s.Open(model.ProcessID{PID: uint32(cmd.Process.Pid)})
	require.ErrorIs(t, err, ErrProcessExited)
	_, err = s.Open(model.ProcessID{PID: uint32(os.Getpid()), StartTicks: 1})
	require.ErrorIs(t, err, ErrProcessExited)
	require.ErrorContains(t, err, "started at tick")
	require.EqualValues(t, 2, s.Stats().Errors[reason.NameProcessExited])

	zombie := exec.Command("true")
	require.NoError(t, zombie.Start())
	require.Eventually(t, func() bool {
		_, err = s.Open(model.ProcessID{PID: uint32(zombie.Process.Pid)})
		return err != nil
	}, time.Minute, time.Millisecond)
	require.ErrorIs(t, err, ErrProcessExited)
	require.NoError(t, zombie.Wait())
}

// TestNamesAfterExit reads names of a process that has exited already.
func TestNamesAfterExit(t *testing.T) {
	bin := toolchain.CompileC(t, programC, "target")
	p := start(t, bin)
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	require.NoError(t, os.Remove(bin))
	require.NoError(t, p.cmd.Process.Kill())
	require.Eventually(t, func() bool {
		d, err := s.proc.dir(model.ProcessID{PID: uint32(p.pid())})
		if err != nil {
			return true
		}
		defer d.close()
		_, err = s.readRegions(d)
		return err != nil
	}, time.Minute, time.Millisecond)
	require.Equal(t, "hidden", nameOf(a, p.functions["hidden"]))
	a.read = time.Time{}
	require.Empty(t, nameOf(a, 0x10))
	require.Empty(t, nameOf(a, 0x20))
	require.EqualValues(t, 1, s.Stats().Unnamed[reason.NameNoMapping]+s.Stats().Unnamed[reason.NameProcessExited]-1)
	require.Positive(t, s.Stats().Unnamed[reason.NameProcessExited])
}

// TestFork checks that a process that has exited has the names of its parent, also when that is closed.
func TestFork(t *testing.T) {
	p := start(t, toolchain.CompileC(t, programC, "target"))
	s := newSymbolizer(t, Config{})
	parent, err := s.Open(model.ProcessID{PID: uint32(p.pid())})
	require.NoError(t, err)
	before := s.Stats()
	child, err := parent.Fork()
	require.NoError(t, err)
	require.Equal(t, before.Spaces+1, s.Stats().Spaces)
	require.Equal(t, "hidden", nameOf(child, p.functions["hidden"]))
	require.Empty(t, nameOf(child, 0x10), "memory that it did not have")
	require.EqualValues(t, 1, s.Stats().Unnamed[reason.NameProcessExited])
	parent.Close()
	require.Equal(t, "hidden", nameOf(child, p.functions["hidden"]))
	_, err = parent.Fork()
	require.ErrorIs(t, err, errClosed)
	child.Close()
	require.Equal(t, before.Spaces-1, s.Stats().Spaces)
}

const programDlopen = `
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
	printf("main %p\nready\n", (void *)main);
	fflush(stdout);
	char c;
	read(0, &c, 1);
	void *h = dlopen(argv[1], RTLD_NOW);
	printf("late %p\nready\n", dlsym(h, "late_function"));
	fflush(stdout);
	while (read(0, &c, 1) > 0) { }
	return 0;
}`

func TestDlopen(t *testing.T) {
	lib := toolchain.CompileC(t, "int late_function(int x) { return x + 1; }", "liblate.so", "-shared", "-fPIC")
	bin := toolchain.CompileC(t, programDlopen, "target", "-ldl")
	cmd := exec.Command(bin, lib)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	readUntilReady := func() string {
		text := ""
		buf := make([]byte, 256)
		for !strings.Contains(text, "ready\n") {
			n, err := out.Read(buf)
			require.NoError(t, err)
			text += string(buf[:n])
		}
		return text
	}
	readUntilReady()
	s := newSymbolizer(t, Config{})
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	a := openSpace(t, s, cmd.Process.Pid)
	_, err = in.Write([]byte("x"))
	require.NoError(t, err)
	late := parseAddress(t, readUntilReady())
	require.Empty(t, nameOf(a, late), "the map was read just now")
	now = now.Add(rereadInterval)
	require.Equal(t, "late_function", nameOf(a, late))
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}

// TestZombie checks that the mappings of a process that has exited but was not reaped count as gone with it.
func TestZombie(t *testing.T) {
	toolchain.Need(t, "sleep")
	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	p, err := newProcfs("/")
	require.NoError(t, err)
	d, err := p.dir(model.ProcessID{PID: uint32(cmd.Process.Pid)})
	require.NoError(t, err)
	defer d.close()
	var mapped *mapEntry
	require.Eventually(t, func() bool {
		entries, err := d.maps()
		require.NoError(t, err)
		i := slices.IndexFunc(entries, func(e mapEntry) bool { return strings.HasPrefix(e.path, "/") })
		if i < 0 {
			return false // in the middle of its exec
		}
		mapped = &entries[i]
		return true
	}, time.Minute, time.Millisecond)
	require.True(t, d.alive())

	require.NoError(t, cmd.Process.Kill())
	defer func() { require.Error(t, cmd.Wait(), "it was killed") }()
	require.Eventually(t, func() bool { // it releases its memory before, its root not much later
		fields, err := statOf(d.fd)
		return err == nil && fields[0] == "Z"
	}, time.Minute, time.Millisecond)
	require.False(t, d.alive())
	_, err = d.locate(mapped)
	require.ErrorIs(t, err, ErrProcessExited)
	var why *reason.Error
	require.ErrorAs(t, err, &why)
	require.Equal(t, reason.NameProcessExited, why.Cause.Name())
}

// TestMainThreadEnded checks that a process whose main thread alone has exited can be read as long as another one runs.
func TestMainThreadEnded(t *testing.T) {
	bin := toolchain.CompileC(t, `
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline, noclone)) void outlive(void) { for (volatile int i = 0; i < 10; i++); }
static void *work(void *none) { char c; outlive(); printf("outlive %p\nready\n", (void *)outlive); fflush(stdout); return (void *)read(0, &c, 1); }
int main(void) { pthread_t t; pthread_create(&t, 0, work, 0); pthread_exit(0); }
`, "outliving", "-pthread")
	p := start(t, bin)
	var d *procDir
	require.Eventually(t, func() bool {
		if d != nil {
			d.close()
		}
		var err error
		d, err = procfs{root: "/", files: patience.Within(time.Minute)}.dir(model.ProcessID{PID: uint32(p.pid())})
		require.NoError(t, err)
		return d.thread >= 0
	}, time.Minute, time.Millisecond)
	require.True(t, d.alive())

	s := newSymbolizer(t, Config{})
	require.NoError(t, os.Remove(bin)) // now only map_files leads to it
	a := openSpace(t, s, p.pid())
	require.Equal(t, "outlive", nameOf(a, p.functions["outlive"]))
	require.NoError(t, a.Refresh())
	who, err := d.self()
	require.NoError(t, err)
	require.EqualValues(t, p.pid(), who.pid, "and not the thread's")
	require.Empty(t, s.Stats().Errors)

	require.NoError(t, p.cmd.Process.Kill())
	require.Eventually(t, func() bool { return !d.alive() }, time.Minute, time.Millisecond)
	_, err = d.maps()
	require.ErrorIs(t, err, ErrProcessExited)
	d.close()
}

func parseAddress(t *testing.T, text string) uint64 {
	t.Helper()
	_, addr, ok := strings.Cut(strings.Fields(text)[1], "0x")
	require.True(t, ok)
	v, ok := proc.ParseHex([]byte(addr))
	require.True(t, ok)
	return v
}

// mapExecutable maps a file with execute permission into this process.
func mapExecutable(t *testing.T, path string, offset int64, n int) uint64 {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	return mapFD(t, int(f.Fd()), offset, n)
}

func mapFD(t *testing.T, fd int, offset int64, n int) uint64 {
	t.Helper()
	addr, _, errno := unix.Syscall6(unix.SYS_MMAP, 0, uintptr(n), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE, uintptr(fd), uintptr(offset))
	require.Zero(t, errno)
	t.Cleanup(func() {
		_, _, errno := unix.Syscall(unix.SYS_MUNMAP, addr, uintptr(n), 0)
		require.Zero(t, errno)
	})
	return uint64(addr)
}

// TestHostileFiles maps invalid executables into this process.
func TestHostileFiles(t *testing.T) {
	page := os.Getpagesize()
	good, err := os.ReadFile(toolchain.CompileC(t, programC, "target"))
	require.NoError(t, err)
	write := func(name string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, b, 0o700))
		return path
	}
	bigEndian := append([]byte{}, good...)
	bigEndian[5] = 2
	badPhdrs := append([]byte{}, good...)
	badPhdrs[56], badPhdrs[57] = 0xff, 0xff
	huge := write("huge", []byte("\x7fELF\x02\x01\x01"))
	require.NoError(t, os.Truncate(huge, 2<<30))
	for name, c := range map[string]struct {
		path string
		want reason.Name
	}{
		"text":       {write("text", []byte(strings.Repeat("no program\n", 1000))), reason.NameNotELF},
		"empty":      {write("empty", nil), reason.NameNotELF},
		"big-endian": {write("big", bigEndian), reason.NameNotELF},
		"headers":    {write("headers", badPhdrs), reason.NameBadELF},
		"cut-head":   {write("cut", good[:100]), reason.NameBadELF},
		"cut-tables": {write("tables", good[:len(good)/2]), reason.NameBadELF},
		"huge":       {huge, reason.NameNoSymbol},
	} {
		t.Run(name, func(t *testing.T) {
			addr := mapExecutable(t, c.path, 0, page)
			s := newSymbolizer(t, Config{})
			a := openSpace(t, s, os.Getpid())
			f := a.Frames(nil, []uint64{addr + 8, addr + 16})
			require.Empty(t, f[0].Lines)
			require.Equal(t, c.path, f[0].Mapping.Path)
			if name == "empty" && os.Geteuid() != 0 {
				c.want = reason.NameNoFile // found by its path, it is not the mapped file
			}
			require.True(t, s.AwaitLines(time.Minute))
			require.Equal(t, map[reason.Name]uint64{c.want: 2}, s.Stats().Unnamed)
			if c.want != reason.NameNoSymbol {
				require.ErrorContains(t, s.Stats().LastError, c.path)
			}
		})
	}
}

// TestTruncatedWhileMapped truncates a file after it was identified.
func TestTruncatedWhileMapped(t *testing.T) {
	bin := toolchain.CompileC(t, programC, "target")
	addr := mapExecutable(t, bin, 0x1000, os.Getpagesize())
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, os.Getpid())
	require.NoError(t, os.Truncate(bin, 0))
	f := a.Frames(nil, []uint64{addr})[0]
	require.Empty(t, f.Lines)
	require.Equal(t, map[reason.Name]uint64{reason.NameBadELF: 1}, s.Stats().Unnamed)
	require.ErrorContains(t, s.Stats().LastError, bin)
}

func TestDevice(t *testing.T) {
	f, err := os.Open("/dev/zero")
	require.NoError(t, err)
	defer f.Close()
	addr := mapFD(t, int(f.Fd()), 0, os.Getpagesize())
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, os.Getpid())
	frame := a.Frames(nil, []uint64{addr})[0]
	require.Equal(t, "/dev/zero", frame.Mapping.Path)
	require.Equal(t, map[reason.Name]uint64{reason.NameNotRegular: 1}, s.Stats().Unnamed)
}

func TestMemfd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a file without a path is only found by /proc/PID/map_files")
	}
	b, err := os.ReadFile(toolchain.CompileC(t, programC, "target"))
	require.NoError(t, err)
	fd, err := unix.MemfdCreate("in memory", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "memfd")
	_, err = f.Write(b)
	require.NoError(t, err)
	addr := mapFD(t, fd, 0x1000, os.Getpagesize())
	require.NoError(t, f.Close())
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, os.Getpid())
	frame := a.Frames(nil, []uint64{addr})[0]
	require.Equal(t, "_init", functionOf(frame))
	require.Equal(t, "/memfd:in memory", frame.Mapping.Path)
}

func TestAnonymous(t *testing.T) {
	b, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer unix.Munmap(b) //nolint:errcheck // a test's own memory
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, os.Getpid())
	addr := addressOfBytes(b)
	f := a.Frames(nil, []uint64{addr + 5})[0]
	require.Equal(t, &model.Frame{Type: model.FrameNative, Address: addr + 5}, f)
	require.Equal(t, map[reason.Name]uint64{reason.NameAnonymous: 1}, s.Stats().Unnamed)
}

func TestVDSO(t *testing.T) {
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, os.Getpid())
	var vdso *region
	for i := range a.regions {
		if a.regions[i].path == "[vdso]" {
			vdso = &a.regions[i]
		}
	}
	require.NotNil(t, vdso)
	table, _ := s.symTable(vdso.bin)
	require.NotNil(t, table)
	seen := map[string]bool{}
	for _, sym := range table.Entries() {
		seen[nameOf(a, vdso.start+uint64(sym.Addr)+table.Base-vdso.mapping.Start)] = true
	}
	require.True(t, seen["__vdso_clock_gettime"] || seen["__kernel_clock_gettime"], seen)
	require.Equal(t, "[vdso]", vdso.mapping.Path)
	other := openSpace(t, s, start(t, toolchain.CompileC(t, programC, "target")).pid())
	for _, r := range other.regions {
		if r.path == "[vdso]" {
			require.Same(t, vdso.bin, r.bin, "one image for all processes")
		}
	}
}

// TestMemoryIsGivenUpFirst checks that a process which exits, and is still shown as running, cannot be read any more.
func TestMemoryIsGivenUpFirst(t *testing.T) {
	for memory, alive := range map[string]bool{"2703360": true, "0": false} {
		dir := t.TempDir()
		stat := "7 (ends) R" + strings.Repeat(" 1", 19) + " " + memory + strings.Repeat(" 1", 29) + "\n" // the 23rd field
		require.NoError(t, os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o600))
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		d := &procDir{pid: 7, fd: fd, thread: -1}
		require.Equal(t, alive, d.alive(), memory)
		d.close()
	}
}
