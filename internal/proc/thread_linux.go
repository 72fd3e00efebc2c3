// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxThreads bounds the threads that are tried.
const maxThreads = 64

// ErrNoThread: no thread of a process shows it, since it exits or has exited.
var ErrNoThread = errors.New("no thread of it shows memory")

// Open opens the folder that shows a process, for look-ups in it. root is where proc is mounted; id is the folder's name. For a kernel
// thread, or if no folder shows the process, it is /proc/PID.
func Open(root string, pid uint32) (fd int, id uint32, err error) {
	if fd, err = openFolder(root, pid); err != nil {
		return -1, 0, err
	}
	if s, err := readStat(fd); err != nil || s.memory || s.threads <= 1 {
		return fd, pid, nil // errors of later reads have the cause
	}
	other, id, err := Thread(root, fd, pid)
	if err != nil {
		return fd, pid, nil
	}
	return other, id, unix.Close(fd)
}

// Thread opens the folder of a thread that shows a process whose main thread does not; folder is /proc/PID. It is /proc/TID and not
// /proc/PID/task/TID, which has no map_files.
func Thread(root string, folder int, pid uint32) (fd int, id uint32, err error) {
	names, err := threads(folder)
	if err != nil {
		return -1, 0, fmt.Errorf("listing the threads of process %d: %w", pid, err)
	}
	for _, name := range names {
		id, err := strconv.ParseUint(name, 10, 32)
		if err != nil || uint32(id) == pid {
			continue
		}
		fd, err := openFolder(root, uint32(id))
		if err != nil {
			continue // it has exited
		}
		if s, err := readStat(fd); err == nil && s.memory && has(fd, pid) {
			return fd, uint32(id), nil
		}
		if err := unix.Close(fd); err != nil {
			return -1, 0, err
		}
	}
	return -1, 0, fmt.Errorf("process %d: %w", pid, ErrNoThread)
}

// has reports whether a thread still belongs to a process, and is not another one that reuses its number.
func has(thread int, pid uint32) bool {
	var s unix.Stat_t
	return again(func() error { return unix.Fstatat(thread, "task/"+strconv.FormatUint(uint64(pid), 10), &s, 0) }) == nil
}

func openFolder(root string, id uint32) (fd int, err error) {
	err = again(func() (err error) {
		fd, err = unix.Open(root+"/"+strconv.FormatUint(uint64(id), 10), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// threads lists the first threads of a process.
func threads(folder int) ([]string, error) {
	var fd int
	err := again(func() (err error) {
		fd, err = unix.Openat(folder, "task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	list := os.NewFile(uintptr(fd), "task")
	names, err := list.Readdirnames(maxThreads)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, errors.Join(err, list.Close())
}

// stat has the fields of the file stat by which a folder is judged.
type stat struct {
	memory  bool
	threads uint64
}

// Fields of stat from the third on, the state; see proc_pid_stat(5).
const (
	statThreads = 20 - 3
	statMemory  = 23 - 3
)

func readStat(folder int) (s stat, err error) {
	var fd, n int
	var buf [1024]byte
	if err = again(func() (err error) { fd, err = unix.Openat(folder, "stat", unix.O_RDONLY|unix.O_CLOEXEC, 0); return err }); err != nil {
		return s, err
	}
	err = again(func() (err error) { n, err = unix.Read(fd, buf[:]); return err })
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		return s, err
	}
	line := buf[:max(n, 0)]
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) <= statMemory {
		return s, fmt.Errorf("stat has %d fields", len(fields))
	}
	s.memory = string(fields[statMemory]) != "0"
	s.threads, err = strconv.ParseUint(string(fields[statThreads]), 10, 64)
	return s, err
}

// again repeats a call that a signal interrupts.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // an errno
			return err
		}
	}
}
