// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// HotPlug reports when CPUs are plugged and unplugged, from the kernel's uevents (lib/kobject_uevent.c). A CPU that goes offline disables its
// perf events for good: they do not return with the CPU.
type HotPlug struct {
	file   *os.File
	events chan struct{}
	done   chan struct{}
}

// WatchHotPlug starts listening. It needs no privileges.
func WatchHotPlug() (*HotPlug, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("watching for CPU hot-plug: opening a uevent socket: %w", err)
	}
	const kernelGroup = 1
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		return nil, errors.Join(fmt.Errorf("watching for CPU hot-plug: binding the uevent socket: %w", err), unix.Close(fd))
	}
	h := &HotPlug{
		file:   os.NewFile(uintptr(fd), "uevent"),
		events: make(chan struct{}, 1),
		done:   make(chan struct{}),
	}
	go h.read()
	return h, nil
}

// Events receives a value after CPUs have changed. Changes in quick succession may be merged into one.
func (h *HotPlug) Events() <-chan struct{} { return h.events }

// Close stops listening and waits for the reader to end.
func (h *HotPlug) Close() error {
	err := h.file.Close()
	<-h.done
	return err
}

func (h *HotPlug) read() {
	defer close(h.done)
	buffer := make([]byte, 4096)
	for {
		n, err := h.file.Read(buffer)
		switch {
		case errors.Is(err, unix.ENOBUFS):
			// Messages were lost, perhaps one of ours: notify, the receiver checks.
			h.notify()
		case err != nil:
			return
		case isCPUEvent(buffer[:n]):
			h.notify()
		}
	}
}

func (h *HotPlug) notify() {
	select {
	case h.events <- struct{}{}:
	default:
	}
}

// isCPUEvent reports whether a uevent is of a CPU that went online or offline: the message is a list of KEY=VALUE, each ended by a zero byte.
func isCPUEvent(message []byte) bool {
	var action, subsystem bool
	for field := range bytes.SplitSeq(message, []byte{0}) {
		switch string(field) {
		case "ACTION=online", "ACTION=offline", "ACTION=add", "ACTION=remove":
			action = true
		case "SUBSYSTEM=cpu":
			subsystem = true
		}
	}
	return action && subsystem
}
