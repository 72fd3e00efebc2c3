// SPDX-License-Identifier: Apache-2.0

// Package patience makes calls to file systems that may never answer: FUSE and NFS with a server that hangs. A call has a second; after that
// the file system is not called for a minute.
package patience

import (
	"fmt"
	"sync"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

const (
	// answerWithin is how long a file system may take for one call.
	answerWithin = time.Second
	// askAgainAfter is how long a file system that did not answer is not asked.
	askAgainAfter = time.Minute
	// maxUnanswered bounds the calls that are still without an answer.
	maxUnanswered = 32
)

// Patience makes calls that a file system may never answer: if its server, a process or another host, hangs, the caller blocks in the kernel.
// Nothing else of the receiver may wait for it. It is safe for concurrent use.
type Patience struct {
	now    func() time.Time
	within time.Duration

	mu         sync.Mutex
	silent     map[uint64]time.Time // by device, until when it is not asked
	unanswered int
}

// New returns a patience of a second.
func New() *Patience { return Within(answerWithin) }

// Within returns one of another time that a file system may take for a call.
func Within(most time.Duration) *Patience {
	return &Patience{now: time.Now, within: most, silent: map[uint64]time.Time{}}
}

// MayHang reports whether a file system may have no disk of this host: such have a device without a driver, major number 0 (fs/super.c,
// get_anon_bdev). FUSE, NFS and overlayfs are among them, and harmless ones.
func MayHang(dev uint64) bool { return dev>>8&0xfff == 0 && dev>>44 == 0 }

// Ask makes a call about a file on a device. It returns [reason.ErrNoAnswer], and the zero value, when there is no answer in time; late gets a result
// that comes after that, to free it. The call must not touch what the caller uses afterwards.
func Ask[T any](p *Patience, dev uint64, call func() (T, error), late func(T)) (T, error) {
	var none T
	if p == nil || !MayHang(dev) {
		return call()
	}
	if !p.begin(dev) {
		return none, reason.ErrNoAnswer
	}
	type answer struct {
		result T
		err    error
	}
	answered, given := make(chan answer), make(chan struct{})
	go func() {
		result, err := call()
		select {
		case answered <- answer{result, err}:
		case <-given:
			p.end(dev)
			if err == nil && late != nil {
				late(result)
			}
		}
	}()
	timer := time.NewTimer(p.within)
	defer timer.Stop()
	select {
	case a := <-answered:
		p.mu.Lock()
		p.unanswered--
		p.mu.Unlock()
		return a.result, a.err
	case <-timer.C:
		p.Avoid(dev, p.now().Add(askAgainAfter))
		close(given)
		return none, fmt.Errorf("%w within %s", reason.ErrNoAnswer, p.within)
	}
}

// Close closes a file on a device. If there is no answer in time, it is closed when there is one.
func (p *Patience) Close(dev uint64, closeFile func() error) error {
	if p == nil || !MayHang(dev) {
		return closeFile()
	}
	closed := make(chan error, 1)
	go func() { closed <- closeFile() }()
	if p.leftAlone(dev) {
		return nil
	}
	timer := time.NewTimer(p.within)
	defer timer.Stop()
	select {
	case err := <-closed:
		return err
	case <-timer.C:
		p.Avoid(dev, p.now().Add(askAgainAfter))
		return fmt.Errorf("%w within %s", reason.ErrNoAnswer, p.within)
	}
}

// Avoid has no call be made to a device until a time.
func (p *Patience) Avoid(dev uint64, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent[dev] = until
}

// leftAlone reports whether a device has not answered recently.
func (p *Patience) leftAlone(dev uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.silent[dev]
	if ok && !p.now().Before(until) {
		delete(p.silent, dev)
		ok = false
	}
	return ok
}

// begin counts a call, unless the device must not be asked or too many calls wait.
func (p *Patience) begin(dev uint64) bool {
	if p.leftAlone(dev) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unanswered >= maxUnanswered {
		return false
	}
	p.unanswered++
	return true
}

// end is called when a device has answered after all.
func (p *Patience) end(dev uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unanswered--
	delete(p.silent, dev)
}
