// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// strippedWithID makes a program without symbols that all users can run, its debug file, and the same with another name for a function.
func strippedWithID(t *testing.T, dir string) (bin, id string, address uint64, debug, lie string) {
	t.Helper()
	id = "f00dfacef00dfacef00dfacef00dface" + strings.Repeat("0", 8)
	source := strings.Replace(programInlined, "__attribute__((noinline)) int outer", "__attribute__((noinline)) static int outer", 1)
	bin = filepath.Join(dir, "target")
	for i, file := range []*string{&debug, &lie} {
		whole := toolchain.CompileC(t, source, "target", "-g", "-O2", "-Wl,--build-id=0x"+id)
		address = symbolsOf(t, whole)[[]string{"outer", "liar1"}[i]]
		*file = filepath.Join(dir, fmt.Sprint("debug", i))
		toolchain.Run(t, "objcopy", "--only-keep-debug", whole, *file)
		require.NoError(t, os.Chmod(*file, 0o644))
		if i == 0 {
			toolchain.Run(t, "objcopy", "--strip-all", whole, bin)
			require.NoError(t, os.Chmod(bin, 0o755))
		}
		source = strings.ReplaceAll(source, "outer", "liar1")
	}
	return bin, id, address, debug, lie
}

// withDebug executes a program in a mount namespace that has a debug file of its own.
const withDebug = `mount -t tmpfs -o mode=755 none /usr/lib/debug; mkdir -p "$(dirname "$2")"; cp "$1" "$2"; exec "$0"`

// namesOf returns the names of an address of a process, at each look-up: of the function, or of what is inlined into it.
func namesOf(t *testing.T, s *Symbolizer, pid, inlined int, find func(a *AddressSpace) uint64) (names []string) {
	t.Helper()
	a := openSpace(t, s, pid)
	for range 2 {
		f := a.Frames(nil, []uint64{find(a)})[0]
		require.True(t, s.AwaitLines(time.Minute))
		name := ""
		if lines := f.Settled().Lines; len(lines) > inlined {
			name = lines[len(lines)-1-inlined].Function.Name
		}
		names = append(names, name)
	}
	return names
}

// inBinary returns an address in the first mapping of the process, by the address in the binary.
func inBinary(addr uint64) func(a *AddressSpace) uint64 {
	return func(a *AddressSpace) uint64 { return addr + a.Regions()[0].Bias }
}

// TestDebugFileOfAUser has a user in a mount namespace with a false debug file of a program that root runs too.
func TestDebugFileOfAUser(t *testing.T) {
	dir, cache := openFolder(t), t.TempDir()
	require.NoError(t, os.Chmod(cache, 0o700))
	bin, id, address, debug, lie := strippedWithID(t, dir)
	place := debuginfo.BuildIDPath(id)
	user := startAsUser(t, withDebug, bin, lie, place)
	root := start(t, bin)
	container := start(t, "unshare", "--mount", "sh", "-e", "-c", withDebug, bin, debug, place)
	at := inBinary(address + 4)
	cfg := Config{CacheDir: cache, CacheBytes: 1 << 20}
	for range 2 { // the second one has the cache of the first one
		s := newSymbolizer(t, cfg)
		require.Equal(t, []string{"", "liar1"}, namesOf(t, s, user.pid(), 0, at), "of its own processes")
		require.Equal(t, []string{"", ""}, namesOf(t, s, root.pid(), 0, at))
		require.Equal(t, []string{"outer", "outer"}, namesOf(t, s, container.pid(), 0, at))
		require.Equal(t, []string{"liar1", "liar1"}, namesOf(t, s, user.pid(), 0, at))
		a := openSpace(t, s, user.pid())
		_, err := a.OpenDebug(a.Regions()[0], 32<<20, nil)
		require.ErrorIs(t, err, ErrNoDebug, "it would unwind for all")
		a.Close()
		require.NoError(t, s.Close())
		require.Zero(t, s.Stats().OpenFiles)
		stored, err := filepath.Glob(cache + "/*")
		require.NoError(t, err)
		require.Empty(t, stored)
	}
}

// TestViewsEnd: with the last process of a domain, its views are dropped.
func TestViewsEnd(t *testing.T) {
	dir := openFolder(t)
	bin, id, address, debug, _ := strippedWithID(t, dir)
	p, plain := start(t, "unshare", "--mount", "sh", "-e", "-c", withDebug, bin, debug, debuginfo.BuildIDPath(id)), start(t, bin)
	s := newSymbolizer(t, Config{})
	b, err := s.Open(model.ProcessID{PID: uint32(plain.pid())}) // which keeps the binary
	require.NoError(t, err)
	a, err := s.Open(model.ProcessID{PID: uint32(p.pid())})
	require.NoError(t, err)
	for range 2 {
		a.Frames(nil, []uint64{inBinary(address + 4)(a)})
		require.True(t, s.AwaitLines(time.Minute))
	}
	held := func() (views, binaries, domains int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.views.All(), len(s.all), len(s.domains)
	}
	views, before, domains := held()
	require.Equal(t, 1, views)
	require.Equal(t, 1, domains, "of a process that was not sampled none is read")
	require.Equal(t, 1, openBelowMounts(t, debuginfo.BuildIDPath(id)))
	a.Close()
	views, after, domains := held()
	require.Zero(t, views)
	require.Zero(t, domains)
	require.Less(t, after, before)
	require.Eventually(t, func() bool { return openBelowMounts(t, debuginfo.BuildIDPath(id)) == 0 }, time.Minute, time.Millisecond)
	b.Close()
}

// openBelowMounts counts the open files of this process by a path in any namespace.
func openBelowMounts(t *testing.T, path string) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, fd := range all {
		if to, err := os.Readlink(fd); err == nil && strings.HasSuffix(path, filepath.Base(to)) && strings.HasSuffix(to, ".debug") {
			n++
		}
	}
	return n
}

// TestPathOfAUser has a user give a program of root another name in a mount namespace of its own, and run it before root does.
func TestPathOfAUser(t *testing.T) {
	dir := openFolder(t)
	bin := filepath.Join(dir, "target")
	publish(t, toolchain.CompileC(t, programC, "target"), bin)
	user := startAsUser(t, `mount -t tmpfs none /mnt; : > /mnt/false; mount --bind "$0" /mnt/false; exec /mnt/false`, bin)
	root := start(t, bin)
	s := newSymbolizer(t, Config{})
	for _, c := range []struct {
		p    target
		path string
	}{{user, "/mnt/false"}, {root, bin}, {user, "/mnt/false"}} {
		a := openSpace(t, s, c.p.pid())
		f := a.Frames(nil, []uint64{c.p.functions["visible"]})[0]
		require.Equal(t, "visible", functionOf(f))
		require.Equal(t, c.path, f.Mapping.Path)
		image, closeFile, err := a.OpenRegion(a.Regions()[0])
		require.NoError(t, err)
		require.NotZero(t, image.Size)
		require.NoError(t, closeFile())
	}
	keys := map[FileKey]struct{}{}
	for _, p := range []target{user, root} {
		a := openSpace(t, s, p.pid())
		keys[a.Regions()[0].File()] = struct{}{}
	}
	require.Len(t, keys, 1, "it is one file all the same")
}

// TestCopyOfAUser has a user run a copy of a program of root whose debug information was changed, and nothing else.
func TestCopyOfAUser(t *testing.T) {
	dir, cache := openFolder(t), t.TempDir()
	require.NoError(t, os.Chmod(cache, 0o700))
	whole := toolchain.CompileC(t, programInlined, "target", "-g", "-O2", "-Wl,--build-id")
	bin, copied := filepath.Join(dir, "target"), filepath.Join(dir, "copy")
	publish(t, whole, bin)
	code, err := os.ReadFile(whole)
	require.NoError(t, err)
	lie := bytes.ReplaceAll(code, []byte("middle\x00"), []byte("muddle\x00"))
	require.NotEqual(t, code, lie)
	require.NoError(t, os.WriteFile(copied, lie, 0o755))
	uid, err := strconv.Atoi(userID)
	require.NoError(t, err)
	require.NoError(t, os.Chown(copied, uid, uid))
	user, root := start(t, "setpriv", "--reuid", userID, "--regid", userID, "--clear-groups", copied), start(t, bin)
	address := uint64(0) // of code of middle that is inlined into outer
	for off := range uint64(24) {
		if lines := linesOf(t, whole, symbolsOf(t, whole)["outer"]+off); len(lines) > 1 && strings.HasPrefix(lines[len(lines)-2], "middle ") && len(lines) == 2 {
			address = symbolsOf(t, whole)["outer"] + off
		}
	}
	require.NotZero(t, address)
	for range 2 {
		s := newSymbolizer(t, Config{CacheDir: cache, CacheBytes: 1 << 20})
		require.Equal(t, []string{"muddle", "muddle"}, namesOf(t, s, user.pid(), 1, inBinary(address)))
		require.Equal(t, []string{"middle", "middle"}, namesOf(t, s, root.pid(), 1, inBinary(address)))
		require.NoError(t, s.Close())
	}
}

// TestSplitUnitsOfAContainer has the split units of a program below the root of one process alone.
func TestSplitUnitsOfAContainer(t *testing.T) {
	dir := openFolder(t)
	whole := toolchain.CompileC(t, programInlined, "target", "-g", "-O2", "-gsplit-dwarf", "-Wl,--build-id")
	units, err := filepath.Glob(filepath.Dir(whole) + "/*.dwo")
	require.NoError(t, err)
	if len(units) == 0 {
		units, err = filepath.Glob("*.dwo")
		require.NoError(t, err)
	}
	require.Len(t, units, 1)
	app, full := filepath.Join(dir, "app"), filepath.Join(dir, "full")
	require.NoError(t, os.Mkdir(app, 0o755))
	require.NoError(t, os.Mkdir(full, 0o755))
	bin := filepath.Join(app, "target")
	publish(t, whole, bin)
	publish(t, whole, filepath.Join(full, "target"))
	toolchain.Run(t, "mv", units[0], full)
	plain := start(t, bin)
	container := start(t, "unshare", "--mount", "sh", "-e", "-c", `mount --bind "$1" "$2"; exec "$0"`, bin, full, app)
	s := newSymbolizer(t, Config{})
	found := ""
	for off := range uint64(16) {
		at := inBinary(symbolsOf(t, whole)["outer"] + off)
		require.Equal(t, "", namesOf(t, s, plain.pid(), 1, at)[1])
		found += namesOf(t, s, container.pid(), 1, at)[1]
		require.Equal(t, "", namesOf(t, s, plain.pid(), 1, at)[1])
	}
	require.Contains(t, found, "middle")
}

// TestDecisionsAreBounded has many domains for which binaries are known to need no view: they count as memory.
func TestDecisionsAreBounded(t *testing.T) { endDomains(t) }

// TestMeasureDecisionsAreBounded checks that the end of one domain does not take longer the more binaries there are.
func TestMeasureDecisionsAreBounded(t *testing.T) { require.Less(t, endDomains(t), 5*time.Second) }

// endDomains returns the CPU time that the end of many domains took.
func endDomains(t *testing.T) time.Duration {
	t.Helper()
	s := assemble(Config{})
	s.lines = &lineReader{s: s}
	const binaries, domains = 20_000, 1000
	var all []*binary
	for range binaries {
		b := &binary{cause: reason.Named}
		b.lines.lacking = true
		s.all[b] = struct{}{}
		all = append(all, b)
	}
	before := s.held()
	of := func(i int) domain { return domain{mounts: uint64(i + 1), uid: uint32(100000 + i), payer: 1000} }
	for i := range 2 * domains {
		s.enter(of(i))
		for k := range 10 {
			b := all[(10*i+k)%binaries]
			t := &lineTable{bin: b, without: of(i)}
			t.decide(s)
		}
	}
	require.EqualValues(t, (maxDecisions*budget.UserFree+budget.UserFree)/(budget.UserFree+1), s.decisions.All(), "an eighth of that is free for others")
	require.GreaterOrEqual(t, s.held()-before, int64(s.decisions.All()*100))
	b := all[1]
	b.lines.lacking = true
	a := &AddressSpace{s: s, asked: true, lastIdentity: identity{domain: domain{mounts: 1 << 30, uid: 1, payer: 1000}}}
	for range 2 {
		require.Same(t, b, s.viewOf(a, &region{bin: b}), "the bound is reached: it has the names that serve all")
		require.EqualValues(t, 1, s.Stats().Errors[reason.NameTooLarge], "for each process once")
	}
	other := &AddressSpace{s: s, asked: true, lastIdentity: identity{domain: domain{mounts: 1 << 30, uid: 1001, payer: 1001}}}
	require.NotSame(t, b, s.viewOf(other, &region{bin: b}), "the other user is within its bound")
	s.dropView(b, other.lastIdentity.domain)
	took := budget.CPUTimeOf(func() {
		for i := range 2 * domains {
			s.leave(of(i))
		}
	})
	require.Zero(t, s.decisions.All())
	require.Zero(t, s.decisions.Users())
	require.Empty(t, s.decided)
	require.Equal(t, before, s.held())
	return took
}
