// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// directory is an open directory. That of a process stays that of this process when the pid is reused.
type directory int

// openDirectory opens a directory only for look-ups in it.
func openDirectory(path string) (directory, error) {
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	return directory(fd), err
}

func (d directory) close() error { return unix.Close(int(d)) }

// read fills the buffer with a file's beginning and reports whether that was all.
func (d directory) read(name string, buf []byte) (n int, whole bool, err error) {
	whole, err = d.readParts(name, buf, len(buf), func(part []byte, _ bool) (int, bool) {
		n = len(part)
		return 0, false
	})
	return n, whole, err
}

// readParts calls part with as much of a file as the buffer holds, and with what follows, until the end of the file, or at least most bytes,
// or until part wants no more. A part begins with the last bytes of the previous one, as many as were kept: not all of them. whole: no more
// was wanted or existed.
func (d directory) readParts(name string, buf []byte, most int, part func(data []byte, last bool) (kept int, enough bool)) (whole bool, err error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(int(d), name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	for n := 0; most > 0; {
		m, err := retry(func() (int, error) { return unix.Read(fd, buf[n:]) })
		if err != nil {
			return false, err
		}
		n, most = n+m, most-m
		if m > 0 && n < len(buf) {
			continue
		}
		kept, enough := part(buf[:n], m == 0)
		if m == 0 || enough {
			return true, nil
		}
		n = copy(buf, buf[n-kept:n])
	}
	return false, nil
}

// readLink reads the target of a symbolic link into the buffer.
func (d directory) readLink(name string, buf []byte) ([]byte, error) {
	n, err := retry(func() (int, error) { return unix.Readlinkat(int(d), name, buf) })
	if err != nil {
		return nil, err
	}
	return buf[:n], nil
}

// inRoot reports whether a path of the process leads to the same existing file as one of its links. No link leads out of the process's root,
// and no server of a file system is asked.
func (d directory) inRoot(link, path string) bool {
	linked, err := status(int(d), link, 0)
	if err != nil || linked.Nlink == 0 {
		return false
	}
	root, err := retry(func() (int, error) {
		return unix.Openat(int(d), "root", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	})
	if err != nil {
		return false
	}
	defer unix.Close(root) //nolint:errcheck // an O_PATH descriptor
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := retry(func() (int, error) { return unix.Openat2(root, strings.TrimPrefix(path, "/"), &how) })
	if err != nil {
		return false
	}
	defer unix.Close(fd) //nolint:errcheck // an O_PATH descriptor
	found, err := status(fd, "", unix.AT_EMPTY_PATH)
	return err == nil && linked.Ino == found.Ino && linked.Dev_major == found.Dev_major && linked.Dev_minor == found.Dev_minor
}

func status(dir int, name string, flags int) (unix.Statx_t, error) {
	var s unix.Statx_t
	_, err := retry(func() (int, error) {
		return 0, unix.Statx(dir, name, flags|unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_NLINK, &s)
	})
	return s, err
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// readBootOffset returns the wall-clock time of boot in nanoseconds: the epoch of process start times.
func readBootOffset() (int64, error) {
	var boot, real unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot); err != nil {
		return 0, fmt.Errorf("reading CLOCK_BOOTTIME: %w", err)
	}
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &real); err != nil {
		return 0, fmt.Errorf("reading CLOCK_REALTIME: %w", err)
	}
	return (time.Duration(real.Nano()) - time.Duration(boot.Nano())).Nanoseconds(), nil
}
