// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Defaults of a Transfer.
const (
	defaultChunk    = 16 << 10
	defaultMessages = 8
)

// mover moves bytes by one call of a kind. It is given how many are left and returns how many were moved, and how many
// messages they were.
type mover interface {
	move(left int64) (bytes, messages int64, err error)
	close() error
}

// writers and readers make the mover of a system call.
var writers = map[string]func(order) (mover, error){
	"write":           simple(func(o order, b []byte) (int, error) { return unix.Write(o.Socket, b) }),
	"writev":          simple(func(o order, b []byte) (int, error) { return unix.Writev(o.Socket, halves(b)) }),
	"sendto":          simple(sendto),
	"sendmsg":         simple(sendmsg),
	"sendmmsg":        newManyWriter,
	"sendfile":        newFileWriter,
	"splice":          newSpliceWriter,
	"io_uring":        byRing(ringOpSend),
	"io_uring_msg":    byRing(ringOpSendMsg),
	"io_uring_splice": newRingSplicer,
}

var readers = map[string]func(order) (mover, error){
	"read":  simple(func(o order, b []byte) (int, error) { return unix.Read(o.Socket, b) }),
	"readv": simple(func(o order, b []byte) (int, error) { return unix.Readv(o.Socket, halves(b)) }),
	"recvfrom": simple(func(o order, b []byte) (int, error) {
		n, _, err := unix.Recvfrom(o.Socket, b, o.Flags)
		return n, err
	}),
	"recvmsg": simple(func(o order, b []byte) (int, error) {
		n, _, _, _, err := unix.RecvmsgBuffers(o.Socket, halves(b), nil, o.Flags)
		return n, err
	}),
	"recvmmsg":     newManyReader,
	"splice":       newSpliceReader,
	"io_uring":     byRing(ringOpRecv),
	"io_uring_msg": byRing(ringOpRecvMsg),
}

func write(o order) (Outcome, error) { return transfer(o, writers, false) }

func read(o order) (Outcome, error) { return transfer(o, readers, true) }

// transfer makes calls until all is moved, and counts.
func transfer(o order, movers map[string]func(order) (mover, error), reading bool) (out Outcome, err error) {
	out.Socket = o.Socket
	newMover, ok := movers[o.How]
	if !ok {
		return out, fmt.Errorf("unknown way %q to move bytes", o.How)
	}
	o.Chunk = cmp.Or(o.Chunk, defaultChunk)
	o.Messages = cmp.Or(o.Messages, defaultMessages)
	m, err := newMover(o)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	for out.Bytes < o.Bytes || o.Once {
		began := time.Now()
		n, messages, err := m.move(o.Bytes - out.Bytes)
		out.Took += time.Since(began)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		out.Calls++
		out.Bytes += max(0, n)
		out.Messages += messages
		if err != nil || o.Once || reading && n == 0 {
			return out, err
		}
	}
	return out, nil
}

// simpleMover calls something with a buffer.
type simpleMover struct {
	order  order
	buffer []byte
	call   func(order, []byte) (int, error)
}

func simple(call func(order, []byte) (int, error)) func(order) (mover, error) {
	return func(o order) (mover, error) {
		return &simpleMover{order: o, buffer: make([]byte, o.Chunk), call: call}, nil
	}
}

func (m *simpleMover) move(left int64) (int64, int64, error) {
	n, err := m.call(m.order, m.buffer[:min(left, int64(len(m.buffer)))])
	if err != nil {
		return 0, 0, err
	}
	return int64(n), 1, nil
}

func (m *simpleMover) close() error { return nil }

// halves parts a buffer into two.
func halves(b []byte) [][]byte { return [][]byte{b[:len(b)/2], b[len(b)/2:]} }

// name is where a message goes as the kernel takes it; nothing where the socket is connected.
func (o order) name() ([]byte, error) {
	if !o.To.IsValid() {
		return nil, nil
	}
	kind, err := kindOf(o.Socket)
	if err != nil {
		return nil, err
	}
	return rawAddress(kind, o.To), nil
}

// sendto makes the system call itself: that of package unix does not return how many bytes were
// sent.
func sendto(o order, b []byte) (int, error) {
	name, err := o.name()
	if err != nil {
		return 0, err
	}
	n, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(o.Socket), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		uintptr(o.Flags), uintptr(unsafe.Pointer(unsafe.SliceData(name))), uintptr(len(name)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

func sendmsg(o order, b []byte) (int, error) {
	var to unix.Sockaddr
	if o.To.IsValid() {
		kind, err := kindOf(o.Socket)
		if err != nil {
			return 0, err
		}
		to = address(kind, o.To)
	}
	return unix.SendmsgBuffers(o.Socket, halves(b), nil, to, o.Flags)
}

// rawAddress is a struct sockaddr_in or sockaddr_in6.
func rawAddress(kind string, a netip.AddrPort) []byte {
	if kind == "tcp6" || kind == "udp6" {
		raw := make([]byte, unix.SizeofSockaddrInet6)
		binary.NativeEndian.PutUint16(raw, unix.AF_INET6)
		binary.BigEndian.PutUint16(raw[2:], a.Port())
		ip := a.Addr().As16() // maps IPv4
		copy(raw[8:], ip[:])
		return raw
	}
	raw := make([]byte, unix.SizeofSockaddrInet4)
	binary.NativeEndian.PutUint16(raw, unix.AF_INET)
	binary.BigEndian.PutUint16(raw[2:], a.Port())
	copy(raw[4:], a.Addr().AsSlice())
	return raw
}
