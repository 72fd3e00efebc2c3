// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errCredentials is the cause when this process may not take the credentials of others: CAP_SETUID or CAP_SETGID is missing.
var errCredentials = errors.New("the credentials of the process cannot be taken")

// dumpable is restored after each change of credentials, with which the kernel clears it for the whole process.
var dumpable, _ = unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)

// capabilities are those of a thread, in the layout of capset(2).
type capabilities [2]unix.CapUserData

func readCapabilities() (c capabilities, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return c, unix.Capget(&header, &c[0])
}

func (c capabilities) set() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capset(&header, &c[0])
}

// withoutFiles drops the capabilities that override the permissions of files.
func (c capabilities) withoutFiles() capabilities {
	c[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	return c
}

// run makes a call that opens a file with the credentials of the user. It runs on a thread of its own: a call to a file system that does not
// answer blocks only that. A thread that cannot restore its own credentials exits.
func (u *fsUser) run(call func() (int, error)) (int, error) {
	type answer struct {
		fd  int
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		runtime.LockOSThread()
		fd, err, whole := u.runLocked(call)
		if whole {
			runtime.UnlockOSThread()
		}
		answered <- answer{fd, err}
	}()
	a := <-answered
	return a.fd, a.err
}

// runLocked is run on a thread that is locked; whole reports whether the thread has its own credentials again.
func (u *fsUser) runLocked(call func() (int, error)) (fd int, err error, whole bool) {
	own, err := readCapabilities()
	if err != nil {
		return -1, errors.Join(errCredentials, err), true
	}
	groups, err := unix.Getgroups()
	if err != nil {
		return -1, errors.Join(errCredentials, err), true
	}
	before := make([]uint32, len(groups))
	for i, g := range groups {
		before[i] = uint32(g) //nolint:gosec // as the kernel returns it
	}
	if err = u.assume(own); err == nil {
		fd, err = call()
	} else {
		fd = -1
	}
	self := fsUser{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid()), groups: before} //nolint:gosec // likewise
	return fd, err, self.restore(own)
}

// assume gives the thread the credentials. These are calls to the kernel itself: those of the library change all threads.
func (u *fsUser) assume(own capabilities) error {
	if !u.sameGroups() {
		if err := setGroups(u.groups); err != nil {
			return errors.Join(errCredentials, err)
		}
	}
	if !setFS(unix.SYS_SETFSGID, u.gid) || !setFS(unix.SYS_SETFSUID, u.uid) {
		return errCredentials
	}
	if err := own.withoutFiles().set(); err != nil {
		return errors.Join(errCredentials, err)
	}
	return nil
}

// restore gives the thread its own credentials and reports whether it has them.
func (u *fsUser) restore(own capabilities) bool {
	whole := own.set() == nil // first: it permits the rest
	whole = setFS(unix.SYS_SETFSUID, u.uid) && whole
	whole = setFS(unix.SYS_SETFSGID, u.gid) && whole
	whole = (u.sameGroups() || setGroups(u.groups) == nil) && whole
	whole = own.set() == nil && whole // the user may have taken some away
	if dumpable == 1 {
		whole = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) == nil && whole
	}
	return whole
}

// sameGroups reports whether the thread is in the groups of the user and in no other: then none need be set, which takes CAP_SETGID.
func (u *fsUser) sameGroups() bool {
	now, err := unix.Getgroups()
	if err != nil || len(now) != len(u.groups) {
		return false
	}
	for i, g := range now {
		if uint32(g) != u.groups[i] { //nolint:gosec // as the kernel returns it
			return false
		}
	}
	return true
}

func setGroups(groups []uint32) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0); errno != 0 {
		return errno
	}
	return nil
}

// setFS makes a call that returns no error but the former id: the second one reads the current id.
func setFS(call uintptr, id uint32) bool {
	unix.RawSyscall(call, uintptr(id), 0, 0)              //nolint:errcheck // see above
	now, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0) //nolint:errcheck // see above
	return uint32(now) == id                              //nolint:gosec // an id has 32 bits
}

// openBelow opens a path below a folder, as openBelow does, with the credentials of the user.
func (u *fsUser) openBelow(root int, path string, flags uint64) (int, error) {
	fd, err := u.run(func() (int, error) { return openBelow(root, path, flags) })
	if errors.Is(err, errCredentials) {
		return u.walk(root, path)
	}
	return fd, err
}

// openOnHost is openBelow for a path below the host's root, where processes without privileges cannot mount: links are followed even if the
// credentials cannot be taken. The mode of the file is compared when it is opened for reading.
func (u *fsUser) openOnHost(root int, path string, flags uint64) (int, error) {
	fd, err := u.run(func() (int, error) { return openBelow(root, path, flags) })
	if errors.Is(err, errCredentials) {
		return openBelow(root, path, flags)
	}
	return fd, err
}

// walk opens a path without links one folder after the other, each of which the user must be able to search.
func (u *fsUser) walk(root int, path string) (int, error) {
	at, err := unix.FcntlInt(uintptr(root), unix.F_DUPFD_CLOEXEC, 0)
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		if err != nil {
			return -1, err
		}
		var stat unix.Stat_t
		next := -1
		if name == "" || name == "." || name == ".." {
			err = unix.EINVAL
		} else if err = unix.Fstat(at, &stat); err == nil && !u.may(stat.Uid, stat.Gid, stat.Mode, 1) {
			err = unix.EACCES
		} else if err == nil {
			next, err = openat(at, name, unix.O_PATH|unix.O_NOFOLLOW)
		}
		unix.Close(at) //nolint:errcheck // an O_PATH descriptor
		at = next
	}
	return at, err
}

// openFile opens a file for reading that was found already.
func (u *fsUser) openFile(p procfs, fd int, stat *unix.Stat_t) (int, error) {
	folder, err := open(p.path("proc/self/fd"), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	defer unix.Close(folder) //nolint:errcheck // an O_PATH descriptor
	read := func() (int, error) { return openat(folder, strconv.Itoa(fd), unix.O_RDONLY) }
	got, err := u.run(read)
	if !errors.Is(err, errCredentials) {
		return got, err
	}
	if !u.may(stat.Uid, stat.Gid, stat.Mode, 4) {
		return -1, unix.EACCES
	}
	return read()
}
