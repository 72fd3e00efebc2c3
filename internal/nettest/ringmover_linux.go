// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ringMover moves bytes by requests of io_uring with a buffer.
type ringMover struct {
	*ring
	order  order
	code   byte
	buffer []byte
}

// byRing makes the mover of a kind of request.
func byRing(code byte) func(order) (mover, error) {
	return func(o order) (mover, error) {
		r, err := openRing()
		if err != nil {
			return nil, err
		}
		return &ringMover{ring: r, order: o, code: code, buffer: make([]byte, o.Chunk)}, nil
	}
}

func (m *ringMover) move(left int64) (int64, int64, error) {
	b := m.buffer[:min(left, int64(len(m.buffer)))]
	q := request{code: m.code, fd: m.order.Socket, at: unsafe.Pointer(unsafe.SliceData(b)), length: len(b), flags: m.order.Flags}
	if m.code == ringOpSendMsg || m.code == ringOpRecvMsg {
		name, err := m.order.name()
		if err != nil {
			return 0, 0, err
		}
		piece := &unix.Iovec{Base: unsafe.SliceData(b)}
		piece.SetLen(len(b))
		header := &unix.Msghdr{Iov: piece, Name: unsafe.SliceData(name), Namelen: uint32(len(name))}
		header.SetIovlen(1)
		var pinned runtime.Pinner
		defer pinned.Unpin()
		pinned.Pin(header)
		q.at, q.length = unsafe.Pointer(header), 1
	}
	n, err := m.do(q)
	if err != nil {
		return 0, 0, err
	}
	return int64(n), 1, nil
}

// ringSplicer moves bytes from a pipe to a socket by requests of io_uring, which may only do what splice does.
type ringSplicer struct {
	*splicer
	ring *ring
}

func newRingSplicer(o order) (mover, error) {
	s, err := newSplicer(o)
	if err != nil {
		return nil, err
	}
	r, err := openRing()
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return ringSplicer{s, r}, nil
}

func (s ringSplicer) move(left int64) (int64, int64, error) {
	if s.waiting == 0 {
		n, err := unix.Write(s.pipe[1], s.buffer[:min(left, int64(len(s.buffer)))])
		if err != nil {
			return 0, 0, fmt.Errorf("filling the pipe: %w", err)
		}
		s.waiting = int64(n)
	}
	n, err := s.ring.do(request{code: ringOpSplice, fd: s.order.Socket, offset: noOffset, from: noOffset, pipe: s.pipe[0], length: int(s.waiting)})
	if err != nil {
		return 0, 0, err
	}
	s.waiting -= int64(n)
	return int64(n), 1, nil
}

func (s ringSplicer) close() error { return errors.Join(s.splicer.close(), s.ring.close()) }

// connectByRing connects a socket, and waits for it.
func connectByRing(fd int, kind string, remote netip.AddrPort) error {
	name := rawAddress(kind, remote)
	_, err := onRing(request{code: ringOpConnect, fd: fd, at: unsafe.Pointer(unsafe.SliceData(name)), offset: uint64(len(name))})
	return err
}

func acceptByRing(fd int) (int, error) {
	return onRing(request{code: ringOpAccept, fd: fd, flags: unix.SOCK_CLOEXEC})
}

func closeByRing(fd int) error {
	_, err := onRing(request{code: ringOpClose, fd: fd})
	return err
}

// RingRefused is why this process may not use io_uring: the kernel has none, or the sysctl kernel.io_uring_disabled or a
// filter of system calls forbids it. nil: it may.
func RingRefused() error {
	r, err := openRing()
	if err != nil {
		return err
	}
	return r.close()
}

// Reading has for each way to write the way to read that goes with it; none by io_uring where that is refused.
func Reading() map[string]string {
	ways := map[string]string{
		"write": "read", "writev": "readv", "sendto": "recvfrom", "sendmsg": "recvmsg", "sendmmsg": "recvmmsg", "sendfile": "read", "splice": "splice",
	}
	if RingRefused() == nil {
		ways["io_uring"], ways["io_uring_msg"], ways["io_uring_splice"] = "io_uring", "io_uring_msg", "read"
	}
	return ways
}
