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
	// offeringPause is the time between two looks at whether a map is there.
	offeringPause = 20 * time.Microsecond
)

// Offering puts maps into maps of maps, for programs to find. The system call puts a
// map there at once, and then waits until all programs have ended that may use what was
// there before (kernel/bpf/syscall.c, maybe_wait_bpf_programs), some 10 ms. Where nothing
// was there nobody needs that, and an Offering leaves the wait to a goroutine. Its
// methods are safe from any goroutine.
type Offering struct {
	waits sync.WaitGroup
	room  chan struct{}
}

// NewOffering returns an offering, of nothing yet.
func NewOffering() *Offering { return &Offering{room: make(chan struct{}, offeringWaits)} }

// Put puts a map at an empty index, and returns when programs find it there. Neither
// map may be closed before [Offering.Wait] has returned.
func (o *Offering) Put(outer *ebpf.Map, index uint32, inner *ebpf.Map) error {
	o.room <- struct{}{}
	done := make(chan error, 1)
	o.waits.Go(func() {
		done <- outer.Put(index, inner)
		<-o.room
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

// Wait returns when nothing waits any more.
func (o *Offering) Wait() { o.waits.Wait() }
