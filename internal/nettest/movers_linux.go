// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is the kernel's struct mmsghdr.
type mmsghdr struct {
	unix.Msghdr
	moved uint32
	_     [4]byte
}

// manyMover moves several messages by one call of sendmmsg or recvmmsg.
type manyMover struct {
	order   order
	number  uintptr // of the system call
	buffers [][]byte
	pieces  []unix.Iovec
	headers []mmsghdr
	names   [][]byte
}

func newManyWriter(o order) (mover, error) { return newMany(o, unix.SYS_SENDMMSG) }

func newManyReader(o order) (mover, error) { return newMany(o, unix.SYS_RECVMMSG) }

func newMany(o order, number uintptr) (mover, error) {
	m := &manyMover{order: o, number: number, pieces: make([]unix.Iovec, o.Messages), headers: make([]mmsghdr, o.Messages)}
	for i := range o.Messages {
		if len(o.Tos) > 0 {
			o.To = o.Tos[i%len(o.Tos)]
		}
		name, err := o.name()
		if err != nil {
			return nil, err
		}
		m.names = append(m.names, name)
		m.buffers = append(m.buffers, make([]byte, o.Chunk))
	}
	return m, nil
}

func (m *manyMover) move(left int64) (bytes, messages int64, err error) {
	n := 0
	for ; n < len(m.headers) && (left > 0 || n == 0); n++ {
		size := min(left, int64(len(m.buffers[n])))
		left -= size
		m.pieces[n].Base = unsafe.SliceData(m.buffers[n])
		m.pieces[n].SetLen(int(size))
		m.headers[n] = mmsghdr{}
		m.headers[n].Iov = &m.pieces[n]
		m.headers[n].SetIovlen(1)
		m.headers[n].Name = unsafe.SliceData(m.names[n])
		m.headers[n].Namelen = uint32(len(m.names[n]))
	}
	flags := m.order.Flags
	if m.number == unix.SYS_RECVMMSG {
		flags |= unix.MSG_WAITFORONE
	}
	done, _, errno := unix.Syscall6(m.number, uintptr(m.order.Socket), uintptr(unsafe.Pointer(&m.headers[0])), uintptr(n), uintptr(flags), 0, 0)
	if errno != 0 {
		return 0, 0, errno
	}
	for _, h := range m.headers[:done] {
		bytes += int64(h.moved)
	}
	return bytes, int64(done), nil
}

func (m *manyMover) close() error { return nil }

// fileWriter sends a file that is in memory.
type fileWriter struct {
	order order
	file  int
}

func newFileWriter(o order) (mover, error) {
	fd, err := unix.MemfdCreate("nettest", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file to send: %w", err)
	}
	if err := unix.Ftruncate(fd, int64(o.Chunk)); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &fileWriter{o, fd}, nil
}

func (m *fileWriter) move(left int64) (int64, int64, error) {
	var offset int64
	n, err := unix.Sendfile(m.order.Socket, m.file, &offset, int(min(left, int64(m.order.Chunk))))
	return int64(n), 1, err
}

func (m *fileWriter) close() error { return unix.Close(m.file) }

// splicer moves bytes between a socket and a pipe.
type splicer struct {
	order   order
	pipe    [2]int
	buffer  []byte
	waiting int64 // bytes in the pipe
}

func newSplicer(o order) (*splicer, error) {
	s := &splicer{order: o, buffer: make([]byte, min(o.Chunk, 32<<10))} // a pipe holds 64 KiB
	if err := unix.Pipe2(s.pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	return s, nil
}

func (s *splicer) close() error { return errors.Join(unix.Close(s.pipe[0]), unix.Close(s.pipe[1])) }

type spliceWriter struct{ *splicer }

func newSpliceWriter(o order) (mover, error) {
	s, err := newSplicer(o)
	return spliceWriter{s}, err
}

func (s spliceWriter) move(left int64) (int64, int64, error) {
	if s.waiting == 0 {
		n, err := unix.Write(s.pipe[1], s.buffer[:min(left, int64(len(s.buffer)))])
		if err != nil {
			return 0, 0, fmt.Errorf("filling the pipe: %w", err)
		}
		s.waiting = int64(n)
	}
	n, err := unix.Splice(s.pipe[0], nil, s.order.Socket, nil, int(s.waiting), 0)
	if err != nil {
		return 0, 0, err
	}
	s.waiting -= n
	return n, 1, nil
}

type spliceReader struct{ *splicer }

func newSpliceReader(o order) (mover, error) {
	s, err := newSplicer(o)
	return spliceReader{s}, err
}

func (s spliceReader) move(left int64) (int64, int64, error) {
	n, err := unix.Splice(s.order.Socket, nil, s.pipe[1], nil, int(min(left, int64(len(s.buffer)))), 0)
	if err != nil {
		return 0, 0, err
	}
	for taken := int64(0); taken < n; {
		m, err := unix.Read(s.pipe[0], s.buffer)
		if err != nil {
			return n, 1, os.NewSyscallError("emptying the pipe", err)
		}
		taken += int64(m)
	}
	return n, 1, nil
}
