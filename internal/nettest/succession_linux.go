// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// executedEnv is set in the environment of a program that has replaced itself.
const executedEnv = "EBPFRECEIVER_NETTEST_EXECUTED"

// Child is a process that a program has forked, and that has ended.
type Child struct{ pid int }

// PID is the process's id.
func (c Child) PID() int { return c.pid }

// Exec has the socket's program replace itself by the same one, which keeps this socket alone.
func (s *Socket) Exec() {
	s.program.t.Helper()
	s.program.must(order{Do: "exec", Socket: s.fd})
}

// ReadInChild has the program fork; the child, which runs no other program, reads so many bytes from the socket and ends.
func (s *Socket) ReadInChild(bytes int64) Child {
	s.program.t.Helper()
	return Child{s.program.must(order{Do: "fork", Socket: s.fd, Transfer: Transfer{Bytes: bytes}}).Child}
}

// execute does not return if it succeeds: the new program reports that it has begun.
func execute(o order) (Outcome, error) {
	if _, err := unix.FcntlInt(uintptr(o.Socket), unix.F_SETFD, 0); err != nil {
		return Outcome{}, err
	}
	return Outcome{}, unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), executedEnv+"=1"))
}

func fork(o order) (Outcome, error) {
	pid, errno := forkReader(uintptr(o.Socket), make([]byte, defaultChunk), o.Bytes)
	if errno != 0 {
		return Outcome{}, fmt.Errorf("forking: %w", errno)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(int(pid), &status, 0, nil); err != nil {
		return Outcome{}, fmt.Errorf("waiting for the child: %w", err)
	}
	if status != 0 {
		return Outcome{}, fmt.Errorf("the child has ended with status %#x", status)
	}
	return Outcome{Child: int(pid)}, nil
}

// forkReader forks and reads in the child. There the Go runtime has lost its threads, so
// that it may do nothing but system calls.
//
//go:norace
//go:noinline
func forkReader(fd uintptr, buffer []byte, left int64) (pid uintptr, errno syscall.Errno) {
	at, size := uintptr(unsafe.Pointer(unsafe.SliceData(buffer))), int64(len(buffer))
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	for left > 0 {
		n, _, failed := syscall.RawSyscall(syscall.SYS_READ, fd, at, uintptr(min(left, size)))
		if failed != 0 || n == 0 {
			syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 1, 0, 0)
		}
		left -= int64(n)
	}
	syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	return 0, 0
}
