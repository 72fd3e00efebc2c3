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
	// mappingPages is the size of a CPU's ring, a power of two; its bell has bellPages.
	mappingPages = 8
	bellPages    = 1
	// mappingWake is how many bytes of a ring wake the reader while the bell is off.
	mappingWake = 8 << 10
	// mappingBusy is how often rings are polled whose bells are off; quietLooks is after how many empty polls a bell is enabled again.
	mappingBusy = 10 * time.Millisecond
	quietLooks  = 3
	// mappingPause is how long records are gathered after a wake-up: a program that starts maps several files, one after the other.
	mappingPause = 300 * time.Microsecond

	perfRecordLost  = 2
	perfRecordMmap2 = 10
	perfHeaderBytes = 8
)

// MappingWatch reports which processes have mapped code of files. It reads the kernel's own records (PERF_RECORD_MMAP2, see
// perf_event_open(2)): no program runs.
//
// Waking the reader costs each process that maps code, in scope or not, an interrupt of its own CPU and a context switch, and a program that
// starts maps code ten times. So each CPU has two events: a ring whose records are read, and a bell that wakes the reader at each record. The
// bell is off from its wake-up until some polls in succession have found the ring empty.
type MappingWatch struct {
	epoll, wake int
	closed      atomic.Bool
	lost        atomic.Uint64

	mu    sync.Mutex // all below, and the descriptors
	byCPU map[int]*mappingRing
	done  bool
}

// mappingRing is one CPU's events and the memory that the kernel writes to.
type mappingRing struct {
	fd, bell int
	shared   []byte
	rings    []byte // the bell's, which is never read
	quiet    int    // empty polls since the bell is off; negative: it is on
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

// Follow reopens the events of the CPUs that are online: a CPU that was offline has lost its event.
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
			continue // it went offline meanwhile
		}
		if err == nil {
			err = errors.Join(w.poll(ring.fd), w.poll(ring.bell))
			w.byCPU[cpu] = ring
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func openMappingRing(cpu int) (*mappingRing, error) {
	r := &mappingRing{quiet: -1}
	var err error
	if r.fd, r.shared, err = openMappingEvent(cpu, mappingWake, mappingPages, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil, err
	}
	// Without a writable page for the read position, the kernel overwrites old records (perf_event_open(2), PROT_WRITE).
	if r.bell, r.rings, err = openMappingEvent(cpu, 1, bellPages, unix.PROT_READ); err != nil {
		return nil, errors.Join(err, unix.Munmap(r.shared), unix.Close(r.fd))
	}
	return r, nil
}

// openMappingEvent opens an event that wakes its pollers when so many bytes were written, and maps pages of it.
func openMappingEvent(cpu int, wake uint32, pages, protection int) (fd int, shared []byte, err error) {
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Config: unix.PERF_COUNT_SW_DUMMY,
		Bits:   unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitWatermark,
		Wakeup: wake,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err = unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return -1, nil, fmt.Errorf("opening an event on CPU %d: %w", cpu, err)
	}
	shared, err = unix.Mmap(fd, 0, (1+pages)*os.Getpagesize(), protection, unix.MAP_SHARED)
	if err != nil {
		return -1, nil, errors.Join(fmt.Errorf("mapping the ring of CPU %d: %w", cpu, err), unix.Close(fd))
	}
	return fd, shared, nil
}

// Read waits until processes have mapped code and calls seen with the thread group id of each, perhaps more than once. The error is
// os.ErrClosed after Stop.
func (w *MappingWatch) Read(seen func(pid uint32)) error {
	var events [16]unix.EpollEvent
	for found := false; !found; {
		n, err := unix.EpollWait(w.epoll, events[:], w.patience())
		if w.closed.Load() {
			return os.ErrClosed
		}
		if err != nil && err != unix.EINTR { //nolint:errorlint // an errno
			return fmt.Errorf("waiting for mappings of code: %w", err)
		}
		if n > 0 {
			time.Sleep(mappingPause)
		}
		if found, err = w.readRings(seen); err != nil {
			return fmt.Errorf("turning the bells of mappings of code on and off: %w", err)
		}
	}
	return nil
}

// patience is how long to wait for a bell, in ms; for ever if all are on.
func (w *MappingWatch) patience() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ring := range w.byCPU {
		if ring.quiet >= 0 {
			return int(mappingBusy / time.Millisecond)
		}
	}
	return -1
}

// readRings reads all rings and reports whether there was anything in them.
func (w *MappingWatch) readRings(seen func(pid uint32)) (found bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ring := range w.byCPU {
		err = errors.Join(err, ring.listen(ring.waits()))
		found = found || ring.waits()
		w.lost.Add(ring.read(seen))
	}
	return found, err
}

// waits reports whether the kernel has written records that were not read.
func (r *mappingRing) waits() bool {
	control := (*unix.PerfEventMmapPage)(unsafe.Pointer(unsafe.SliceData(r.shared)))
	return atomic.LoadUint64(&control.Data_head) != control.Data_tail
}

// listen disables the bell if records were found, and enables it after some empty polls. The ring must be read after it: records from before
// the bell was on do not ring it.
func (r *mappingRing) listen(found bool) (err error) {
	switch on := r.quiet < 0; {
	case found && on:
		err = unix.IoctlSetInt(r.bell, unix.PERF_EVENT_IOC_DISABLE, 0)
		r.quiet = 0
	case found:
		r.quiet = 0
	case !on:
		if r.quiet++; r.quiet >= quietLooks {
			err = unix.IoctlSetInt(r.bell, unix.PERF_EVENT_IOC_ENABLE, 0)
			r.quiet = -1
		}
	}
	if errors.Is(err, unix.ENODEV) {
		return nil // its CPU went offline
	}
	return err
}

// Lost counts records that did not fit into the ring.
func (w *MappingWatch) Lost() uint64 { return w.lost.Load() }

// read calls seen for what the kernel has written and returns how much it could not write.
func (r *mappingRing) read(seen func(uint32)) (lost uint64) {
	page := os.Getpagesize()
	control := (*unix.PerfEventMmapPage)(unsafe.Pointer(unsafe.SliceData(r.shared)))
	data := r.shared[page:]
	head, tail := atomic.LoadUint64(&control.Data_head), control.Data_tail
	for tail < head {
		var record [56]byte // as much as is needed of any record
		for i := range record {
			record[i] = data[(tail+uint64(i))%uint64(len(data))]
		}
		size := uint64(binary.NativeEndian.Uint16(record[6:]))
		if size < perfHeaderBytes {
			tail = head // cannot happen
			break
		}
		switch binary.NativeEndian.Uint32(record[:]) {
		case perfRecordMmap2:
			if inode := binary.NativeEndian.Uint64(record[48:]); inode != 0 { // else it is no mapping of a file
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
		errs = append(errs, unix.Munmap(ring.shared), unix.Close(ring.fd), unix.Munmap(ring.rings), unix.Close(ring.bell))
		delete(w.byCPU, cpu)
	}
	return errors.Join(errs...)
}

// Stop makes Read return os.ErrClosed, now or when it is called next.
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
