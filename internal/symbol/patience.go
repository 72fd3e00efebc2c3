// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// answerWithin is how long a file system may take for one call.
	answerWithin = time.Second
	// askAgainAfter is how long one that did not answer is left alone.
	askAgainAfter = time.Minute
	// maxUnanswered bounds the calls that wait for an answer in vain.
	maxUnanswered = 32
)

// errNoAnswer is the cause when a file's file system does not answer.
var errNoAnswer = errors.New("its file system does not answer")

// patience makes calls that a file system may never answer: one whose server, a
// process or another host, hangs keeps whoever asks it in the kernel. Nothing else
// of the receiver may wait for it. Safe for concurrent use.
type patience struct {
	now func() time.Time

	mu         sync.Mutex
	silent     map[uint64]time.Time // by device, until when it is not asked
	unanswered int
}

func newPatience() *patience { return &patience{now: time.Now, silent: map[uint64]time.Time{}} }

// mayHang tells file systems that are the kernel's own view of something from those
// on a disk of this host: they have a device without a driver, major number 0
// (fs/super.c, get_anon_bdev). FUSE, NFS and overlayfs are among them, and harmless
// ones.
func mayHang(dev uint64) bool { return dev>>8&0xfff == 0 && dev>>44 == 0 }

// ask makes a call about a file on a device. It returns errNoAnswer, and the zero
// value, when there is no answer in time; late is given a result that comes after
// that, to free it. The call must not touch what the caller goes on to use.
func ask[T any](p *patience, dev uint64, call func() (T, error), late func(T)) (T, error) {
	var none T
	if p == nil || !mayHang(dev) {
		return call()
	}
	if !p.begin(dev) {
		return none, errNoAnswer
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
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case a := <-answered:
		p.mu.Lock()
		p.unanswered--
		p.mu.Unlock()
		return a.result, a.err
	case <-timer.C:
		p.mu.Lock()
		p.silent[dev] = p.now().Add(askAgainAfter)
		p.mu.Unlock()
		close(given)
		return none, fmt.Errorf("%w within %s", errNoAnswer, answerWithin)
	}
}

// giveUp closes a file on a device. Where there is no answer in time it is closed when
// there is one.
func (p *patience) giveUp(dev uint64, closeFile func() error) error {
	if p == nil || !mayHang(dev) {
		return closeFile()
	}
	closed := make(chan error, 1)
	go func() { closed <- closeFile() }()
	if p.leftAlone(dev) {
		return nil
	}
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case err := <-closed:
		return err
	case <-timer.C:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.silent[dev] = p.now().Add(askAgainAfter)
		return fmt.Errorf("%w within %s", errNoAnswer, answerWithin)
	}
}

// leftAlone tells whether a device has not answered just before.
func (p *patience) leftAlone(dev uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.silent[dev]
	if ok && !p.now().Before(until) {
		delete(p.silent, dev)
		ok = false
	}
	return ok
}

// begin counts a call, unless the device is left alone or too many calls wait.
func (p *patience) begin(dev uint64) bool {
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

// end is told that a device has answered after all.
func (p *patience) end(dev uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unanswered--
	delete(p.silent, dev)
}
