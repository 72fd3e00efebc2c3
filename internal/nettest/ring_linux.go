// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Of include/uapi/linux/io_uring.h; package unix has none of it.
const (
	ringEntries  = 4
	ringOpSend   = 26
	ringOpRecv   = 27
	enterGet     = 1 << 0 // IORING_ENTER_GETEVENTS
	featOneMap   = 1 << 0 // IORING_FEAT_SINGLE_MMAP, since Linux 5.4
	offsetQueues = 0
	offsetWork   = 0x10000000
	workSize     = 64 // of struct io_uring_sqe
	resultSize   = 16 // of struct io_uring_cqe
)

// ringParams is struct io_uring_params.
type ringParams struct {
	workEntries, resultEntries, flags, _, _, features, _ uint32
	_                                                    [3]uint32
	work                                                 struct{ head, tail, mask, entries, flags, dropped, array, _, _, _ uint32 }
	result                                               struct{ head, tail, mask, entries, overflow, entriesAt, flags, _, _, _ uint32 }
}

// ring moves bytes by io_uring, one request at a time.
type ring struct {
	order  order
	code   byte
	fd     int
	queues []byte
	work   []byte
	params ringParams
	buffer []byte
}

func newRingWriter(o order) (mover, error) { return newRing(o, ringOpSend) }

func newRingReader(o order) (mover, error) { return newRing(o, ringOpRecv) }

func newRing(o order, code byte) (mover, error) {
	r := &ring{order: o, code: code, buffer: make([]byte, o.Chunk)}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, ringEntries, uintptr(unsafe.Pointer(&r.params)), 0)
	if errno != 0 {
		return nil, fmt.Errorf("setting io_uring up: %w", errno)
	}
	r.fd = int(fd)
	if err := r.attach(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// attach maps the queues.
func (r *ring) attach() error {
	if r.params.features&featOneMap == 0 {
		return errors.New("setting io_uring up: the kernel has two maps of queues, which this program does not know")
	}
	size := max(r.params.work.array+4*r.params.workEntries, r.params.result.entriesAt+resultSize*r.params.resultEntries)
	var err error
	if r.queues, err = unix.Mmap(r.fd, offsetQueues, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
		return fmt.Errorf("mapping the queues of io_uring: %w", err)
	}
	r.work, err = unix.Mmap(r.fd, offsetWork, int(workSize*r.params.workEntries), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("mapping the requests of io_uring: %w", err)
	}
	return nil
}

// word is a shared counter of the queues.
func (r *ring) word(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.queues[offset])) }

func (r *ring) move(left int64) (int64, int64, error) {
	b := r.buffer[:min(left, int64(len(r.buffer)))]
	tail := *r.word(r.params.work.tail)
	slot := tail & *r.word(r.params.work.mask)
	request := r.work[slot*workSize:][:workSize]
	clear(request)
	request[0] = r.code
	binary.NativeEndian.PutUint32(request[4:], uint32(r.order.Socket))
	binary.NativeEndian.PutUint64(request[16:], uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))))
	binary.NativeEndian.PutUint32(request[24:], uint32(len(b)))
	binary.NativeEndian.PutUint32(request[28:], uint32(r.order.Flags))
	*r.word(r.params.work.array + 4*slot) = slot
	atomic.StoreUint32(r.word(r.params.work.tail), tail+1)
	if err := r.enter(1); err != nil {
		return 0, 0, err
	}
	head := *r.word(r.params.result.head)
	for atomic.LoadUint32(r.word(r.params.result.tail)) == head {
		if err := r.enter(0); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, 0, err
		}
	}
	at := r.params.result.entriesAt + resultSize*(head&*r.word(r.params.result.mask))
	n := int32(binary.NativeEndian.Uint32(r.queues[at+8:]))
	atomic.StoreUint32(r.word(r.params.result.head), head+1)
	if n < 0 {
		return 0, 0, unix.Errno(-n)
	}
	return int64(n), 1, nil
}

// enter hands requests over and waits for one result. A signal may end the wait after a request was taken.
func (r *ring) enter(requests uintptr) error {
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), requests, 1, enterGet, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func (r *ring) close() error {
	var errs []error
	for _, mapped := range [][]byte{r.queues, r.work} {
		if mapped != nil {
			errs = append(errs, unix.Munmap(mapped))
		}
	}
	return errors.Join(append(errs, unix.Close(r.fd))...)
}
