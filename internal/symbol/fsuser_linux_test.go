// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// programAt runs code at a fixed address that belongs to no file.
const programAt = `
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
	char c;
	void *code = mmap((void *)0x20000000, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (code == MAP_FAILED)
		return 1;
	printf("code %p\npid %x\nready\n", code, getpid());
	fflush(stdout);
	while (read(0, &c, 1) > 0) { }
	return 0;
}
`

const (
	codeAtFixed = 0x20000010
	userID      = "12345"
)

// openFolder makes a folder that all users can search, unlike that of a test.
func openFolder(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: takes the credentials of another user")
	}
	parent := "/var/tmp" // a test mounts over /tmp
	if _, err := os.Stat(parent); err != nil {
		parent = os.TempDir() // a guest has no other
	}
	dir, err := os.MkdirTemp(parent, "symbol-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// publish copies a program to where all users can run it.
func publish(t *testing.T, from, to string) {
	t.Helper()
	toolchain.Run(t, "cp", from, to)
	require.NoError(t, os.Chmod(to, 0o755))
}

// startAsUser runs a script, and what it executes, as a user without privileges in namespaces of its own, where it may mount.
func startAsUser(t *testing.T, script string, args ...string) target {
	t.Helper()
	toolchain.Need(t, "setpriv")
	line := []string{"--reuid", userID, "--regid", userID, "--clear-groups", "unshare", "--user", "--map-root-user", "--mount", "sh", "-e", "-c", script}
	return start(t, "setpriv", append(line, args...)...)
}

// TestPerfMapOfRootIsNotReadForAUser has a user mount a file of root, which the user cannot read, over a perf map.
func TestPerfMapOfRootIsNotReadForAUser(t *testing.T) {
	dir := openFolder(t)
	bin, secret := filepath.Join(dir, "target"), filepath.Join(dir, "secret")
	publish(t, toolchain.CompileC(t, programAt, "target"), bin)
	require.NoError(t, os.WriteFile(secret, []byte("20000000 100 password\n"), 0o600))
	const script = `: > /tmp/perf-$$.map; mount --bind "$1" /tmp/perf-$$.map; exec "$0"`
	p := startAsUser(t, script, bin, secret)
	path := fmt.Sprintf("/tmp/perf-%d.map", p.functions["pid"])
	t.Cleanup(func() { require.NoError(t, os.Remove(path)) })
	s := newSymbolizer(t, Config{})
	require.Empty(t, nameOf(openSpace(t, s, p.pid()), codeAtFixed))
	require.Equal(t, map[reason.Name]uint64{reason.NameNotPermitted: 1}, s.Stats().Errors)
	require.ErrorContains(t, s.Stats().LastError, path)
	require.ErrorContains(t, s.Stats().LastError, "let that user read it")

	// A file that the user may read is read, also if root wrote it.
	require.NoError(t, os.Chmod(secret, 0o644))
	again := newSymbolizer(t, Config{})
	require.Equal(t, "password", nameOf(openSpace(t, again, p.pid()), codeAtFixed))
	require.Empty(t, again.Stats().Errors)
}

// TestPerfMapInAFolderOfRoot has a user mount a folder of root, which the user cannot search, over /tmp.
func TestPerfMapInAFolderOfRoot(t *testing.T) {
	dir := openFolder(t)
	bin, secret := filepath.Join(dir, "target"), filepath.Join(dir, "secret")
	publish(t, toolchain.CompileC(t, programAt, "target"), bin)
	require.NoError(t, os.Mkdir(secret, 0o700))
	p := startAsUser(t, `mount --bind "$1" /tmp; exec "$0"`, bin, secret)
	text := []byte("20000000 100 password\n")
	require.NoError(t, os.WriteFile(filepath.Join(secret, fmt.Sprintf("perf-%d.map", p.functions["pid"])), text, 0o644))
	s := newSymbolizer(t, Config{})
	require.Empty(t, nameOf(openSpace(t, s, p.pid()), codeAtFixed))
	require.Equal(t, map[reason.Name]uint64{reason.NameNotPermitted: 1}, s.Stats().Errors)
}

// TestPerfMapWithASecondName uses a hard link to a file of the user, which any other user could have made.
func TestPerfMapWithASecondName(t *testing.T) {
	code, path := codeMemory(t), ownMap(t)
	appendTo(t, path, "%x 100 named\n", code)
	require.NoError(t, os.Link(path, path+".link"))
	defer os.Remove(path + ".link") //nolint:errcheck // it is there
	s, _ := clocked(t, Config{})
	require.Empty(t, nameOf(openSpace(t, s, os.Getpid()), code))
	require.Equal(t, map[reason.Name]uint64{reason.NameNotTrusted: 1}, s.Stats().Errors)
}

// TestPerfMapOfTheUser has maps of a user's process that must be read: its own that no other may read, in a file system of its own too.
func TestPerfMapOfTheUser(t *testing.T) {
	dir := openFolder(t)
	bin := filepath.Join(dir, "target")
	publish(t, toolchain.CompileC(t, programAt, "target"), bin)
	const script = `mount -t tmpfs none /tmp; umask 077; echo "20000000 100 own" > /tmp/perf-$$.map; exec "$0"`
	p := startAsUser(t, script, bin)
	s := newSymbolizer(t, Config{})
	require.Equal(t, "own", nameOf(openSpace(t, s, p.pid()), codeAtFixed))
	require.Empty(t, s.Stats().Errors)
}

// TestCredentials opens files as other users do, by the kernel and without it, and checks that its own credentials are unchanged after that.
func TestCredentials(t *testing.T) {
	dir := openFolder(t)
	require.NoError(t, os.Chmod(dir, 0o750))
	require.NoError(t, os.Chown(dir, 7, 20))
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	root, err := os.Open("/")
	require.NoError(t, err)
	defer root.Close() //nolint:errcheck // only read
	before := statusLines(t)
	for _, c := range []struct {
		owner, group int
		mode         os.FileMode
		who          fsUser
		want         error
	}{
		{1, 2, 0o400, fsUser{uid: 1, gid: 20}, nil},
		{1, 2, 0o400, fsUser{uid: 1, gid: 21}, unix.EACCES}, // the folder
		{1, 2, 0o400, fsUser{uid: 1, gid: 21, groups: []uint32{20}}, nil},
		{1, 2, 0o040, fsUser{uid: 3, gid: 20, groups: []uint32{2}}, nil},
		{1, 2, 0o044, fsUser{uid: 1, gid: 20, groups: []uint32{2}}, unix.EACCES}, // the owner may not
		{1, 2, 0o404, fsUser{uid: 3, gid: 20, groups: []uint32{2}}, unix.EACCES}, // nor may the group
		{0, 0, 0o600, fsUser{uid: 7}, unix.EACCES},
		{1, 1, 0o600, fsUser{uid: 0, gid: 20}, unix.EACCES}, // root without a capability over files
		{0, 0, 0o600, fsUser{uid: 0, gid: 20}, nil},
	} {
		require.NoError(t, os.Chown(file, c.owner, c.group))
		require.NoError(t, os.Chmod(file, c.mode))
		for name, find := range map[string]func() (int, error){
			"kernel": func() (int, error) { return c.who.openBelow(int(root.Fd()), file, 0) },
			"mode":   func() (int, error) { return c.who.walk(int(root.Fd()), file) },
		} {
			fd, err := find()
			if err == nil {
				var stat unix.Stat_t
				require.NoError(t, unix.Fstat(fd, &stat))
				var got int
				if name == "kernel" {
					got, err = c.who.openFile(procfs{root: "/"}, fd, &stat)
					if err == nil {
						require.NoError(t, unix.Close(got))
					}
				} else if !c.who.may(stat.Uid, stat.Gid, stat.Mode, 4) {
					err = unix.EACCES
				}
				require.NoError(t, unix.Close(fd))
			}
			require.ErrorIs(t, err, c.want, "%s %+v", name, c)
		}
	}
	require.Equal(t, before, statusLines(t))
	for range 4 * runtime.GOMAXPROCS(0) {
		done := make(chan []string)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			done <- threadLines()
		}()
		require.Equal(t, before, <-done)
	}
}

// statusLines returns the credentials of this process's threads.
func statusLines(t *testing.T) []string {
	t.Helper()
	lines := threadLines()
	require.NotEmpty(t, lines)
	return lines
}

func threadLines() (lines []string) {
	text, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		for _, key := range []string{"Uid", "Gid", "Groups", "Cap"} {
			if strings.HasPrefix(line, key) {
				lines = append(lines, line)
			}
		}
	}
	flag, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	return append(lines, fmt.Sprint(flag, err))
}

// TestFileInRootOfAnotherInode finds a mapping's file by name when the kernel's link cannot be used: not one that the user cannot read,
// though it has the inode number of the mapping's.
func TestFileInRootOfAnotherInode(t *testing.T) {
	dir := openFolder(t)
	bin, secret := filepath.Join(dir, "target"), filepath.Join(dir, "secret")
	publish(t, toolchain.CompileC(t, programAt, "target"), bin)
	require.NoError(t, os.Mkdir(secret, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(secret, "jit-1.dump"), []byte("JiTD"), 0o600))
	p := startAsUser(t, `mount --bind "$1" /tmp; exec "$0"`, bin, secret)
	d, err := procfs{root: "/"}.dir(model.ProcessID{PID: uint32(p.pid())})
	require.NoError(t, err)
	defer d.close()
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(secret, "jit-1.dump"), &stat))
	_, err = d.locate(&mapEntry{start: 1, end: 2, ino: stat.Ino, path: "/tmp/jit-1.dump"})
	require.ErrorIs(t, err, os.ErrPermission)
}

// TestWalkKeepsNothingForPrograms checks that no descriptor of a walk stays open in a program that is executed meanwhile.
func TestWalkKeepsNothingForPrograms(t *testing.T) {
	root, err := open(t.TempDir(), unix.O_PATH|unix.O_DIRECTORY)
	require.NoError(t, err)
	defer unix.Close(root) //nolint:errcheck // an O_PATH descriptor
	var folder unix.Stat_t
	require.NoError(t, unix.Fstat(root, &folder))
	stop := make(chan struct{})
	var walks sync.WaitGroup
	walks.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_, err := everyone().walk(root, "missing")
				assert.Error(t, err)
			}
		}
	})
	defer walks.Wait()
	defer close(stop)
	seen := 0
	for end := time.Now().Add(time.Minute); seen < 100 && time.Now().Before(end); {
		for fd := 3; fd < 64; fd++ {
			var stat unix.Stat_t
			if fd == root || unix.Fstat(fd, &stat) != nil || stat.Ino != folder.Ino || stat.Dev != folder.Dev {
				continue
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
				seen++
				require.NotZero(t, flags&unix.FD_CLOEXEC)
			}
		}
	}
	require.Positive(t, seen)
}
