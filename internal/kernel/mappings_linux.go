// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// mappingPages is the size of a CPU's ring, a power of two.
	mappingPages = 8
	// mappingEvery is how often the rings are looked at. To be woken instead costs whoever
	// maps code an interrupt of its own CPU and a switch to the reader each time, in scope
	// or not: a program that starts does so ten times.
	mappingEvery = 10 * time.Millisecond
	// mappingWake is how many bytes of a ring wake the reader all the same, before it is full.
	mappingWake = 8 << 10

	perfRecordLost  = 2
	perfRecordMmap2 = 10
	perfHeaderBytes = 8
)

// MappingWatch tells which processes have mapped code of files. The kernel's own
// records do it (PERF_RECORD_MMAP2, see perf_event_open(2)): no program runs.
type MappingWatch struct {
	epoll, wake int
	closed      atomic.Bool
	lost        atomic.Uint64

	mu    sync.Mutex // all below, and the descriptors
	byCPU map[int]*mappingRing
	done  bool
}

// mappingRing is one CPU's event and the memory that the kernel writes to.
type mappingRing struct {
	fd     int
	shared []byte
}

// WatchMappings begins to watch the online CPUs.
func WatchMappings(online []int) (_ *MappingWatch, err error) {
	w := &MappingWatch{epoll: -1, wake: -1, byCPU: map[int]*mappingRing{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("watching for mappings of code: %w", err), w.Close())
		}
	}()
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	if err = w.poll(w.wake); err != nil {
		return nil, err
	}
	if err = w.Follow(online); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *MappingWatch) poll(fd int) error {
	return unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// Follow watches the CPUs that are online anew: one that was away has lost its
// event.
func (w *MappingWatch) Follow(online []int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return os.ErrClosed
	}
	errs := []error{w.closeRings()}
	for _, cpu := range online {
		ring, err := openMappingRing(cpu)
		if errors.Is(err, unix.ENODEV) {
			continue // it went away meanwhile
		}
		if err == nil {
			err = w.poll(ring.fd)
			w.byCPU[cpu] = ring
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func openMappingRing(cpu int) (*mappingRing, error) {
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Config: unix.PERF_COUNT_SW_DUMMY,
		Bits:   unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitWatermark,
		Wakeup: mappingWake,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("opening an event on CPU %d: %w", cpu, err)
	}
	shared, err := unix.Mmap(fd, 0, (1+mappingPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mapping the ring of CPU %d: %w", cpu, err), unix.Close(fd))
	}
	return &mappingRing{fd: fd, shared: shared}, nil
}

// Read waits until processes have mapped code and calls seen with the thread
// group id of each, perhaps more than once. The error is os.ErrClosed after
// Stop.
func (w *MappingWatch) Read(seen func(pid uint32)) error {
	var events [16]unix.EpollEvent
	for told := false; !told; {
		_, err := unix.EpollWait(w.epoll, events[:], int(mappingEvery/time.Millisecond))
		if w.closed.Load() {
			return os.ErrClosed
		}
		if err != nil && err != unix.EINTR { //nolint:errorlint // an errno
			return fmt.Errorf("waiting for mappings of code: %w", err)
		}
		told = w.look(seen)
	}
	return nil
}

// look reads all rings and tells whether anything was in them.
func (w *MappingWatch) look(seen func(pid uint32)) (told bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ring := range w.byCPU {
		told = told || ring.waits()
		w.lost.Add(ring.read(seen))
	}
	return told
}

// waits tells whether the kernel has written what was not read.
func (r *mappingRing) waits() bool {
	control := (*unix.PerfEventMmapPage)(unsafe.Pointer(unsafe.SliceData(r.shared)))
	return atomic.LoadUint64(&control.Data_head) != control.Data_tail
}

// Lost counts records that the kernel had no room for.
func (w *MappingWatch) Lost() uint64 { return w.lost.Load() }

// read calls seen for what the kernel has written and returns how much it could
// not write.
func (r *mappingRing) read(seen func(uint32)) (lost uint64) {
	page := os.Getpagesize()
	control := (*unix.PerfEventMmapPage)(unsafe.Pointer(unsafe.SliceData(r.shared)))
	data := r.shared[page:]
	head, tail := atomic.LoadUint64(&control.Data_head), control.Data_tail
	for tail < head {
		var record [56]byte // as much as is needed of any
		for i := range record {
			record[i] = data[(tail+uint64(i))%uint64(len(data))]
		}
		size := uint64(binary.NativeEndian.Uint16(record[6:]))
		if size < perfHeaderBytes {
			tail = head // cannot be
			break
		}
		switch binary.NativeEndian.Uint32(record[:]) {
		case perfRecordMmap2:
			if inode := binary.NativeEndian.Uint64(record[48:]); inode != 0 { // else it is no file's
				seen(binary.NativeEndian.Uint32(record[perfHeaderBytes:]))
			}
		case perfRecordLost:
			lost += binary.NativeEndian.Uint64(record[perfHeaderBytes+8:])
		}
		tail += size
	}
	atomic.StoreUint64(&control.Data_tail, tail)
	return lost
}

func (w *MappingWatch) closeRings() error {
	var errs []error
	for cpu, ring := range w.byCPU {
		errs = append(errs, unix.Munmap(ring.shared), unix.Close(ring.fd))
		delete(w.byCPU, cpu)
	}
	return errors.Join(errs...)
}

// Stop makes Read, now or when it is called next, return os.ErrClosed.
func (w *MappingWatch) Stop() error {
	if w.closed.Swap(true) {
		return nil
	}
	if _, err := unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return fmt.Errorf("waking the reader of mappings of code: %w", err)
	}
	return nil
}

// Close frees everything, once Read has returned for the last time.
func (w *MappingWatch) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return nil
	}
	w.done = true
	errs := []error{w.closeRings()}
	for _, fd := range []int{w.epoll, w.wake} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}
