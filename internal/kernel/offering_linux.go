// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"sync"
	"time"

	"github.com/cilium/ebpf"
)

const (
	// offeringWaits bounds the threads that wait at a time.
	offeringWaits = 32
	// offeringPause is the time between two polls for a map.
	offeringPause = 20 * time.Microsecond
)

// Offering puts maps into maps of maps, for programs to find. The system call puts a map there at once, and then waits until all programs
// have ended that may use the previous map (kernel/bpf/syscall.c, maybe_wait_bpf_programs), some 10 ms. If there was none, that wait is not
// needed, and an Offering leaves it to a goroutine. Its methods are safe for concurrent use.
type Offering struct {
	waits sync.WaitGroup
	slots chan struct{}
}

// NewOffering returns an empty offering.
func NewOffering() *Offering { return &Offering{slots: make(chan struct{}, offeringWaits)} }

// Put puts a map at an empty index, and returns when programs find it there. Neither map may be closed before [Offering.Wait] has returned.
func (o *Offering) Put(outer *ebpf.Map, index uint32, inner *ebpf.Map) error {
	o.slots <- struct{}{}
	done := make(chan error, 1)
	o.waits.Go(func() {
		done <- outer.Put(index, inner)
		<-o.slots
	})
	for {
		select {
		case err := <-done:
			return err
		default:
		}
		var id uint32
		if err := outer.Lookup(index, &id); !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		time.Sleep(offeringPause)
	}
}

// Wait returns when no Put waits any more.
func (o *Offering) Wait() { o.waits.Wait() }
