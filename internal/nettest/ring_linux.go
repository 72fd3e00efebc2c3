// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Of include/uapi/linux/io_uring.h; package unix has none of it.
const (
	ringEntries   = 4
	ringOpSendMsg = 9
	ringOpRecvMsg = 10
	ringOpAccept  = 13
	ringOpConnect = 16
	ringOpClose   = 19
	ringOpSend    = 26
	ringOpRecv    = 27
	ringOpSplice  = 30
	enterGet      = 1 << 0 // IORING_ENTER_GETEVENTS
	featOneMap    = 1 << 0 // IORING_FEAT_SINGLE_MMAP, since Linux 5.4
	offsetQueues  = 0
	offsetWork    = 0x10000000
	workSize      = 64 // of struct io_uring_sqe
	resultSize    = 16 // of struct io_uring_cqe
	noOffset      = ^uint64(0)
)

// ringParams is struct io_uring_params.
type ringParams struct {
	workEntries, resultEntries, flags, _, _, features, _ uint32
	_                                                    [3]uint32
	work                                                 struct{ head, tail, mask, entries, flags, dropped, array, _, _, _ uint32 }
	result                                               struct{ head, tail, mask, entries, overflow, entriesAt, flags, _, _, _ uint32 }
}

// ring makes requests of io_uring, one at a time.
type ring struct {
	fd     int
	queues []byte
	work   []byte
	params ringParams
}

// request is what of struct io_uring_sqe is used.
type request struct {
	code   byte
	fd     int
	offset uint64 // of connect the length of the address, of splice where to write
	at     unsafe.Pointer
	from   uint64 // of splice, in place of at: where to read
	length int
	flags  int
	pipe   int // of splice: what is read
}

func openRing() (*ring, error) {
	r := &ring{}
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

// onRing makes one request on a ring of its own.
func onRing(q request) (result int, err error) {
	r, err := openRing()
	if err != nil {
		return -1, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return r.do(q)
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

// do makes a request and waits for what comes of it.
func (r *ring) do(q request) (int, error) {
	tail := *r.word(r.params.work.tail)
	slot := tail & *r.word(r.params.work.mask)
	entry := r.work[slot*workSize:][:workSize]
	clear(entry)
	entry[0] = q.code
	binary.NativeEndian.PutUint32(entry[4:], uint32(q.fd))
	binary.NativeEndian.PutUint64(entry[8:], q.offset)
	binary.NativeEndian.PutUint64(entry[16:], q.from+uint64(uintptr(q.at)))
	binary.NativeEndian.PutUint32(entry[24:], uint32(q.length))
	binary.NativeEndian.PutUint32(entry[28:], uint32(q.flags))
	binary.NativeEndian.PutUint32(entry[44:], uint32(q.pipe))
	*r.word(r.params.work.array + 4*slot) = slot
	atomic.StoreUint32(r.word(r.params.work.tail), tail+1)
	if err := r.enter(1); err != nil {
		return 0, err
	}
	head := *r.word(r.params.result.head)
	for atomic.LoadUint32(r.word(r.params.result.tail)) == head {
		if err := r.enter(0); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
	}
	runtime.KeepAlive(q)
	at := r.params.result.entriesAt + resultSize*(head&*r.word(r.params.result.mask))
	n := int32(binary.NativeEndian.Uint32(r.queues[at+8:]))
	atomic.StoreUint32(r.word(r.params.result.head), head+1)
	if n < 0 {
		return 0, unix.Errno(-n)
	}
	return int(n), nil
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
