// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	byteorder "encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/codemap/dumptest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/patience"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// codeMemory maps memory for code into this process, as a JIT compiler does.
func codeMemory(t *testing.T) uint64 {
	t.Helper()
	code, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Munmap(code)) })
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(code))))
}

// ownMap is the path of this process's perf map, which is removed at the end.
func ownMap(t *testing.T) string {
	t.Helper()
	path := fmt.Sprintf("/tmp/perf-%d.map", os.Getpid())
	require.NoFileExists(t, path)
	t.Cleanup(func() { _ = os.Remove(path) }) // not every test removes it
	return path
}

func appendTo(t *testing.T, path, format string, args ...any) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	require.NoError(t, err)
	_, err = fmt.Fprintf(f, format, args...)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// movedClock is a clock that a test advances while goroutines read it.
type movedClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *movedClock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *movedClock) move(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// clocked is a symbolizer whose clock the test advances.
func clocked(t *testing.T, cfg Config) (*Symbolizer, *movedClock) {
	t.Helper()
	s, clock := newSymbolizer(t, cfg), &movedClock{now: time.Now()}
	s.now = clock.read
	return s, clock
}

func TestPerfMapOfAProcess(t *testing.T) {
	code, path := codeMemory(t), ownMap(t)
	s, now := clocked(t, Config{})
	a := openSpace(t, s, os.Getpid())
	frame := func(addr uint64) *model.Frame { return a.Frames(nil, []uint64{addr})[0] }
	require.Empty(t, frame(code).Lines)
	require.EqualValues(t, 1, s.Stats().Unnamed[reason.NameAnonymous], "no file lists it")

	appendTo(t, path, "%x 100 first\n%x 100 LazyCompile:*second /srv/x.js:12:3\n", code, code+0x100)
	now.move(2 * time.Second)
	f := frame(code + 0x10)
	require.Equal(t, "first", functionOf(f))
	require.Equal(t, model.FrameNative, f.Type)
	require.Nil(t, f.Mapping)
	require.Equal(t, code+0x10, f.Address)
	require.Same(t, f, frame(code+0x10))
	f = frame(code + 0x1ff)
	require.Equal(t, &model.Function{Name: "second", SystemName: "LazyCompile:*second /srv/x.js:12:3", Filename: "/srv/x.js", StartLine: 12}, f.Lines[0].Function)
	require.Equal(t, model.FrameV8, f.Type)
	unlisted := frame(code + 0x200)
	require.Empty(t, unlisted.Lines)

	// It grows: after a miss it is polled soon, changes are seen within a second.
	appendTo(t, path, "%x 100 third\n%x 80 first again\n", code+0x200, code)
	now.move(jitPauseMissed)
	require.Equal(t, "third", functionOf(frame(code+0x200)))
	require.Same(t, frame(code+0x200), unlisted.Settled(), "what was given out before has its name, too")
	require.Equal(t, "first again", functionOf(frame(code+0x10)))
	require.Equal(t, "second", functionOf(frame(code+0x110)), "from the frames that were kept")
	appendTo(t, path, "%x 80 moved here\n", code)
	now.move(jitPause)
	require.Equal(t, "moved here", functionOf(frame(code+0x10)))

	// Another file replaces it.
	require.NoError(t, os.Remove(path))
	now.move(jitPause)
	require.Equal(t, "moved here", functionOf(frame(code+0x10)), "what was known stays")
	appendTo(t, path, "%x 100 of another file\n", code)
	now.move(jitPause)
	require.Equal(t, "of another file", functionOf(frame(code+0x10)))
	require.Empty(t, frame(code+0x110).Lines)
	require.Empty(t, s.Stats().Errors)
	require.Equal(t, 1, a.Code([]uint64{code, 1}), "code is in mapped memory")

	a.Close()
	require.Zero(t, s.jitted.held())
	require.Zero(t, s.jitted.open)
}

// TestCompiledNamesComeLate has frames that were returned before the process listed their code, as a JVM does on request.
func TestCompiledNamesComeLate(t *testing.T) {
	code, path := codeMemory(t), ownMap(t)
	appendTo(t, path, "%x 100 first\n", code)
	s, now := clocked(t, Config{})
	a := openSpace(t, s, os.Getpid())
	frame := func(addr uint64) *model.Frame { return a.Frames(nil, []uint64{addr})[0] }
	require.Equal(t, "first", functionOf(frame(code)))
	second, third := frame(code+0x100), frame(code+0x200)
	require.Same(t, second, frame(code+0x100))
	require.Zero(t, s.Stats().Unnamed[reason.NameNotInCodeMap], "it is not known yet")
	require.Equal(t, 2, s.jitted.awaited)

	// The map is rewritten: first it is empty, then shorter than before, then complete.
	require.NoError(t, os.Truncate(path, 0))
	now.move(jitPause)
	between := frame(code + 0x10)
	require.Empty(t, between.Lines)
	appendTo(t, path, "%x 100 second\n", code+0x100)
	now.move(jitPauseMissed)
	frame(code + 0x110)
	require.Equal(t, "second", functionOf(second.Settled()))
	require.Empty(t, between.Settled().Lines)
	appendTo(t, path, "%x 100 first\n", code)
	now.move(jitPauseMissed)
	frame(code + 0x110)
	require.Equal(t, "first", functionOf(between.Settled()))
	require.EqualValues(t, code+0x10, between.Settled().Address)
	require.Same(t, between.Settled(), frame(code+0x10))

	// A frame that is never listed counts as unnamed, as often as it was returned.
	require.Same(t, third, frame(code+0x200))
	now.move(awaitFor)
	require.Empty(t, frame(code+0x200).Settled().Lines)
	require.EqualValues(t, 3, s.Stats().Unnamed[reason.NameNotInCodeMap])
	frame(code + 0x300)
	require.Equal(t, 1, s.jitted.awaited)
	a.Close()
	require.Zero(t, s.jitted.awaited)
	require.EqualValues(t, 4, s.Stats().Unnamed[reason.NameNotInCodeMap])
}

// TestCodeBeingWritten has no execute permission at the moment, as while V8 compiles: the map lists it as code.
func TestCodeBeingWritten(t *testing.T) {
	codeMemory(t) // so that there is some
	path := ownMap(t)
	hidden, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	defer unix.Munmap(hidden) //nolint:errcheck // the test is over
	addr := addressOfBytes(hidden)
	appendTo(t, path, "%x 100 written\n", addr)
	a := openSpace(t, newSymbolizer(t, Config{}), os.Getpid())
	require.Equal(t, 1, a.Code([]uint64{addr + 1, addr + 0x200}))
	require.Equal(t, 2, a.Code([]uint64{addr, addr + 1}))
	require.Equal(t, "written", nameOf(a, addr))
}

func TestJitDumpOfAProcess(t *testing.T) {
	code, path := codeMemory(t), ownMap(t)
	appendTo(t, path, "%x 100 of the perf map\n%x 100 only there\n", code, code+0x100)
	w := dumptest.New(byteorder.NativeEndian)
	w.Record(dumptest.DebugInfo, int(code), 2, int(code), uint32(10), uint32(0), "/src/a.x", int(code)+0x10, uint32(11), uint32(0), "\xff")
	w.Load(int(code), 0x100, "of the dump")
	dump := filepath.Join(t.TempDir(), fmt.Sprintf("jit-%d.dump", os.Getpid()))
	require.NoError(t, os.WriteFile(dump, w.Data, 0o600))
	file, err := os.Open(dump)
	require.NoError(t, err)
	marker, err := unix.Mmap(int(file.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	require.NoError(t, err)
	defer unix.Munmap(marker) //nolint:errcheck // the test is over
	require.NoError(t, file.Close())

	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, os.Getpid())
	f := a.Frames(nil, []uint64{code + 0x20})[0]
	require.Equal(t, "of the dump", functionOf(f))
	require.Equal(t, "/src/a.x", f.Lines[0].Function.Filename)
	require.EqualValues(t, 11, f.Lines[0].Line)
	require.EqualValues(t, 10, a.Frames(nil, []uint64{code + 8})[0].Lines[0].Line)
	require.Equal(t, "only there", nameOf(a, code+0x100))
	require.Empty(t, s.Stats().Errors, "a dump is no broken ELF file")
}

// TestPerfMapRefused has invalid perf maps, or such that are not the process's.
func TestPerfMapRefused(t *testing.T) {
	code, path := codeMemory(t), ownMap(t)
	for name, c := range map[string]struct {
		put  func() error
		want string
	}{
		"pipe":      {func() error { return unix.Mkfifo(path, 0o644) }, "not a regular file"},
		"directory": {func() error { return os.Mkdir(path, 0o755) }, "not a regular file"},
		"link":      {func() error { return os.Symlink("/dev/zero", path) }, "not a regular file"},
		"link to a file": {func() error {
			other := filepath.Join(t.TempDir(), "map")
			appendTo(t, other, "%x 100 linked\n", code)
			return os.Symlink(other, path)
		}, "not a regular file"},
		"another user": {func() error {
			appendTo(t, path, "%x 100 foreign\n", code)
			if err := os.Chown(path, 12345, 12345); err != nil {
				t.Skip("giving a file away needs root")
			}
			return nil
		}, "it belongs to another user"},
	} {
		t.Run(name, func(t *testing.T) {
			defer os.Remove(path) //nolint:errcheck // it is there
			require.NoError(t, c.put())
			s, now := clocked(t, Config{})
			a := openSpace(t, s, os.Getpid())
			require.Empty(t, nameOf(a, code))
			require.ErrorContains(t, s.Stats().LastError, fmt.Sprintf("%s of process %d", path, os.Getpid()))
			require.ErrorContains(t, s.Stats().LastError, c.want)
			before := s.Stats().Errors
			now.move(time.Minute)
			require.Empty(t, nameOf(a, code))
			require.Equal(t, before, s.Stats().Errors, "it is said once")
		})
	}
}

// TestPerfMapOfAnEarlierProcess is older than the process.
func TestPerfMapOfAnEarlierProcess(t *testing.T) {
	code, path := codeMemory(t), ownMap(t)
	appendTo(t, path, "%x 100 of another\n", code)
	d, err := procfs{root: "/"}.dir(model.ProcessID{PID: uint32(os.Getpid())})
	require.NoError(t, err)
	stat, err := statOf(d.fd)
	require.NoError(t, err)
	ticks, err := strconv.ParseUint(stat[22-3], 10, 64)
	require.NoError(t, err)
	d.close()
	s, now := clocked(t, Config{})
	old := time.Now().Add(-24 * 365 * time.Hour)
	require.NoError(t, os.Chtimes(path, old, old))
	a, err := s.Open(model.ProcessID{PID: uint32(os.Getpid()), StartTicks: ticks})
	require.NoError(t, err)
	defer a.Close()
	require.Empty(t, nameOf(a, code))
	require.Empty(t, s.Stats().Errors)
	appendTo(t, path, "%x 100 its own\n", code)
	now.move(time.Minute)
	require.Equal(t, "its own", nameOf(a, code))
}

// TestPerfMapWithoutAnswer has a file system that does not answer: no caller waits for it.
func TestPerfMapWithoutAnswer(t *testing.T) {
	code, path := codeMemory(t), ownMap(t)
	appendTo(t, path, "%x 100 named\n", code)
	s, now := clocked(t, Config{})
	d, err := s.proc.dir(model.ProcessID{PID: uint32(os.Getpid())})
	require.NoError(t, err)
	mounts := d.mounts()
	d.close()
	require.True(t, patience.MayHang(mounts))
	s.proc.files.Avoid(mounts, time.Now().Add(time.Hour))
	a := openSpace(t, s, os.Getpid())
	require.Empty(t, nameOf(a, code))
	require.Equal(t, map[reason.Name]uint64{reason.NameNoAnswer: 1}, s.Stats().Errors)
	s.proc.files.Avoid(mounts, time.Time{})
	now.move(jitPauseMax)
	require.Equal(t, "named", nameOf(a, code))
}

// programJIT lists code in a perf map, by its pid in its own namespace.
const programJIT = `
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
	char path[64], c;
	void *code = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(path, "w");
	if (code == MAP_FAILED || !map)
		return 1;
	fprintf(map, "%lx 100 compiled\n", (unsigned long)code);
	fclose(map);
	printf("compiled %p\npid %x\nready\n", code, getpid());
	fflush(stdout);
	while (read(0, &c, 1) > 0) { }
	return 0;
}
`

// TestPerfMapInNamespaces has the map of a process in namespaces of its own: below its own /tmp, which no other process has, by its pid
// there.
func TestPerfMapInNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes namespaces of mounts and pids")
	}
	toolchain.Need(t, "unshare")
	bin := toolchain.CompileC(t, programJIT, "target", "-static")
	p := start(t, "unshare", "--mount", "--pid", "--fork", "sh", "-c", `exec 3<"$0" && mount -t tmpfs none /tmp && exec /proc/self/fd/3`, bin)
	require.EqualValues(t, 1, p.functions["pid"])
	require.NoFileExists(t, "/tmp/perf-1.map")
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", p.pid()))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	require.NoError(t, err)
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, pid)
	require.Equal(t, "compiled", nameOf(a, p.functions["compiled"]+0x10))
	require.Empty(t, s.Stats().Errors)
}

func TestParseStatus(t *testing.T) {
	who, err := parseStatus([]byte("Name:\tnode\nUid:\t1000\t1001\t1002\t1003\nGid:\t20\t21\t22\t23\nGroups:\t4 27 \nNSpid:\t4711\t20\t7\n"), 4711)
	require.NoError(t, err)
	require.Equal(t, inside{pid: 7, fs: fsUser{uid: 1003, gid: 23, groups: []uint32{4, 27}}}, who)
	const root = "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\n"
	who, err = parseStatus([]byte(root), 4711)
	require.NoError(t, err)
	require.Equal(t, inside{pid: 4711}, who)
	for _, bad := range []string{"", "Uid:\n", "Uid:\t0\t0\t0\tx\n", "Uid:\t0\t0\t0\t0\n", root + "NSpid:\t99999999999\n", root + "Groups:\tx\n"} {
		_, err := parseStatus([]byte(bad), 1)
		require.Error(t, err, bad)
	}
}

// TestPerfMapTooLarge has more compiled functions than fit into memory: those outside of code are dropped, then the file is read no further.
func TestPerfMapTooLarge(t *testing.T) {
	code, path := codeMemory(t), ownMap(t)
	text := []byte(nil)
	for i := range 40_000 { // some of V8's bytecode
		text = fmt.Appendf(text, "%x 10 bytecode\n", 0x1000+i*16)
	}
	text = fmt.Appendf(text, "%x 100 in code\n", code)
	require.NoError(t, os.WriteFile(path, text, 0o644))
	s, now := clocked(t, Config{MemoryBytes: 2 << 20})
	a := openSpace(t, s, os.Getpid())
	require.Equal(t, "in code", nameOf(a, code))
	require.LessOrEqual(t, s.jitted.bytes, s.memory/4)
	require.Empty(t, s.Stats().Errors)

	text = text[:0]
	for i := range 40_000 {
		text = fmt.Appendf(text, "%x 10 small\n", code+uint64(i*16))
	}
	appendTo(t, path, "%s", text)
	now.move(time.Second)
	nameOf(a, code)
	require.EqualValues(t, 1, s.Stats().Errors[reason.NameTooLarge])
	require.ErrorContains(t, s.Stats().LastError, "the perf map "+path)
	held := s.jitted.bytes
	appendTo(t, path, "%s", text)
	now.move(time.Second)
	nameOf(a, code)
	require.Equal(t, held, s.jitted.bytes, "no more is read")
	require.LessOrEqual(t, heldNow(s), s.memory)
}

// TestPerfMapIsReadInPieces has one of 1 GiB, which is much more than may be read at once, most of it a hole.
func TestPerfMapIsReadInPieces(t *testing.T) {
	code, path := codeMemory(t), ownMap(t)
	appendTo(t, path, "%x 100 first\n", code)
	sparse := int64(1 << 30)
	if guest.Running() { // a file system in memory allocates memory even for reading a hole
		sparse = 64 << 20
	}
	require.NoError(t, os.Truncate(path, sparse))
	appendTo(t, path, "\n%x 100 last\n", code+0x100)
	s, now := clocked(t, Config{})
	a := openSpace(t, s, os.Getpid())
	require.Equal(t, "first", nameOf(a, code))
	looks := 0
	for ; nameOf(a, code+0x100) == "" && looks < 512; looks++ {
		began := time.Now()
		now.move(jitWindow)
		nameOf(a, code)
		require.Less(t, time.Since(began), time.Minute)
		require.LessOrEqual(t, a.jit.perfMap.Read, uint64(looks+2)*(jitBudget+elfsym.ScratchBytes))
	}
	require.LessOrEqual(t, heldNow(s), s.memory)
	require.Equal(t, "last", nameOf(a, code+0x100))
	require.InDelta(t, sparse/jitBudget, looks, 2)
	require.EqualValues(t, 1, s.Stats().Errors[reason.NameBadCodeMap], "one line too long")
}

// TestSpansAreEvicted evicts spans for tables, and reads them again.
func TestSpansAreEvicted(t *testing.T) {
	code, path := codeMemory(t), ownMap(t)
	for i := range 2000 {
		appendTo(t, path, "%x 10 function %d\n", code+uint64(i*16), i)
	}
	s, now := clocked(t, Config{})
	a := openSpace(t, s, os.Getpid())
	require.Equal(t, "function 7", nameOf(a, code+7*16))
	require.Positive(t, s.jitted.bytes)
	s.mu.Lock() // files of this process are summed in the background
	s.makeRoom(s.memory-s.jitted.bytes/2, nil)
	s.mu.Unlock()
	require.Zero(t, s.jitted.bytes)
	require.Positive(t, s.Stats().TablesEvicted)
	now.move(time.Second)
	require.Equal(t, "function 7", nameOf(a, code+7*16))
}

// TestUnnamedRuntimeIsReported logs once for a program that its language has no names.
func TestUnnamedRuntimeIsReported(t *testing.T) {
	ownMap(t)
	bin := toolchain.CompileC(t, programC, "node")
	core, logs := observer.New(zap.InfoLevel)
	s, now := clocked(t, Config{Logger: zap.New(core)})
	for range 2 {
		p := start(t, bin)
		a := openSpace(t, s, p.pid())
		require.Equal(t, 1, s.Stats().Runtimes[model.Runtime{Language: model.FrameV8, Names: model.NamesNone}])
		require.Equal(t, model.Runtime{Language: model.FrameV8, Names: model.NamesNone}, a.Runtime())
		require.Equal(t, "visible", nameOf(a, p.functions["visible"]))
		now.move(reportAfter + jitPauseMax)
		nameOf(a, p.functions["visible"])
		entries := logs.FilterMessage("Functions of a program's own language have no names").All()
		require.Len(t, entries, 1)
		require.Equal(t, "v8js", entries[0].ContextMap()["runtime"])
		require.Equal(t, bin, entries[0].ContextMap()["program"])
		require.Contains(t, entries[0].ContextMap()["advice"], "--perf-basic-prof")
		path := fmt.Sprintf("/tmp/perf-%d.map", p.pid())
		appendTo(t, path, "10 10 x\n")
		now.move(jitPauseMax)
		nameOf(a, p.functions["visible"])
		named := model.Runtime{Language: model.FrameV8, Names: model.NamesPerfMap}
		require.Equal(t, map[model.Runtime]int{named: 1}, s.Stats().Runtimes)
		require.Equal(t, named, a.Runtime())
		require.NoError(t, os.Remove(path))
		a.Close()
		require.Empty(t, s.Stats().Runtimes)
		require.Equal(t, named, a.Runtime(), "of a process that has ended the last word")
	}
}
