// SPDX-License-Identifier: Apache-2.0

package codefile

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mapped is a file of functions that can be called.
type Mapped struct {
	text []byte
}

// Map maps the functions of a file that [Write] has written.
func Map(path string, functions int) (Mapped, error) {
	f, err := os.Open(path)
	if err != nil {
		return Mapped{}, err
	}
	defer f.Close()
	text, err := unix.Mmap(int(f.Fd()), TextOffset, functions*SlotBytes, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		return Mapped{}, fmt.Errorf("mapping %s: %w", path, err)
	}
	return Mapped{text}, nil
}

// Functions is how many there are.
func (m Mapped) Functions() int { return len(m.text) / SlotBytes }

// Address is where the i-th function is.
func (m Mapped) Address(i int) uint64 { return uint64(uintptr(unsafe.Pointer(&m.text[i*SlotBytes]))) }

// Close unmaps the functions.
func (m Mapped) Close() error { return unix.Munmap(m.text) }

// Call runs the i-th function. It needs no stack and changes one register alone, which Go expects of any call.
func (m Mapped) Call(i int) {
	entry := unsafe.Pointer(&m.text[i*SlotBytes])
	closure := &entry // a func value points to where the entry is
	(*(*func())(unsafe.Pointer(&closure)))()
}

// InMemory makes one function in memory of no file, at an address.
func InMemory(address uintptr, loops uint32) (Mapped, error) {
	slot, err := code(loops)
	if err != nil {
		return Mapped{}, err
	}
	at := unsafe.Add(unsafe.Pointer(nil), address)
	const private = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED_NOREPLACE
	page, err := unix.MmapPtr(-1, 0, at, uintptr(os.Getpagesize()), unix.PROT_READ|unix.PROT_WRITE, private)
	if err != nil {
		return Mapped{}, fmt.Errorf("mapping memory at %#x: %w", address, err)
	}
	text := unsafe.Slice((*byte)(page), os.Getpagesize())
	copy(text, slot[:])
	if err := unix.Mprotect(text, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		return Mapped{}, fmt.Errorf("executing memory at %#x: %w", address, err)
	}
	return Mapped{text[:SlotBytes]}, nil
}

// Unmap ends the use of the file.
func (m Mapped) Unmap() error { return unix.Munmap(m.text) }
