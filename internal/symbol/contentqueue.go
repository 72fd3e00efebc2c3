// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// The functions below are called with the mutex of the symbolizer held.

// ask has the file of a binary summed. If it cannot wait, it is requested again when a process maps it or its file is opened.
func (c *contents) ask(b *binary) {
	if c == nil || c.over || !b.unsummed || b.job != nil || b.file == nil {
		return
	}
	identity := b.origin.identity
	if identity == "" {
		identity = fmt.Sprint("other ", b.key)
	}
	j := c.jobs[identity]
	if j == nil {
		if len(c.queue) >= maxSums && !c.displace(b.origin.writer) {
			return
		}
		j = &sumJob{identity: identity, owner: b.origin.writer}
		c.jobs[identity] = j
		c.queue = append(c.queue, j)
	}
	if len(j.bins) >= maxSummed {
		return
	}
	b.job = j
	j.bins = append(j.bins, b)
	select {
	case c.wake <- struct{}{}:
	default: // it is awake
	}
}

// displace drops the last file of the user that has most waiting, unless the requesting user has about as many.
func (c *contents) displace(owner uint32) bool {
	counts := map[uint32]int{}
	last := -1
	for _, j := range c.queue {
		counts[j.owner]++
	}
	for i, j := range c.queue {
		if last < 0 || counts[j.owner] >= counts[c.queue[last].owner] {
			last = i
		}
	}
	if counts[c.queue[last].owner] <= counts[owner]+1 {
		return false
	}
	c.remove(last)
	return true
}

// remove drops a waiting file.
func (c *contents) remove(i int) {
	c.leave(c.queue[i])
	c.queue = append(c.queue[:i], c.queue[i+1:]...)
}

// leave ends the wait of the binaries of a job.
func (c *contents) leave(j *sumJob) {
	delete(c.jobs, j.identity)
	for _, b := range j.bins {
		b.job = nil
	}
}

// askAgain has the file of a cancelled job summed nevertheless: a process may have mapped it again meanwhile.
func (c *contents) askAgain(j *sumJob) {
	for _, b := range j.bins {
		if _, known := c.s.all[b]; known && b.refs > 0 {
			c.ask(b)
		}
	}
}

// wanted reports whether a process runs the file of a job.
func (c *contents) wanted(j *sumJob) bool {
	for _, b := range j.bins {
		if _, known := c.s.all[b]; known && b.refs > 0 {
			return true
		}
	}
	return false
}

// result is what is known of a version of a file.
func (c *contents) result(identity string) (contentResult, bool) {
	r, ok := c.results[identity]
	if !ok {
		r, ok = c.older[identity]
	}
	return r, ok
}

func (c *contents) remember(identity string, r contentResult) {
	if identity == "" || c.over {
		return
	}
	if len(c.results) >= maxSumsKnown {
		c.older, c.results = c.results, map[string]contentResult{}
	}
	c.results[identity] = r
}

// allow reports whether so many bytes of a new file may be summed while the caller waits.
func (c *contents) allow(bytes uint64) bool {
	now := c.now()
	if earned := now.Sub(c.allowedAt).Seconds() * sumRate; earned > 0 {
		c.allowed, c.allowedAt = min(c.allowed+uint64(min(earned, sumBurst)), sumBurst), now
	}
	if bytes > sumNow || bytes > c.allowed {
		return false
	}
	c.allowed -= bytes
	return true
}

// bytes is the memory in use.
func (c *contents) bytes() int64 {
	if c == nil {
		return 0
	}
	return int64(len(c.results)+len(c.older)+len(c.jobs)) * sumJobBytes
}

// filesHeld is how many files are open to be summed.
func (c *contents) filesHeld() int {
	if c == nil {
		return 0
	}
	return c.files
}

// next takes the file whose owner has recently used the least, with a binary that has the file. It takes the lock itself.
func (c *contents) next() (*sumJob, *binary, source) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c.spent.Forget(c.now())
	for len(c.queue) > 0 {
		best := 0
		for i, j := range c.queue {
			if c.spent.Of(budget.Account(j.owner)) < c.spent.Of(budget.Account(c.queue[best].owner)) {
				best = i
			}
		}
		j := c.queue[best]
		c.queue = append(c.queue[:best], c.queue[best+1:]...)
		for _, b := range j.bins {
			file, ok := b.file.(interface{ again() (source, error) })
			if !ok {
				continue
			}
			src, err := file.again()
			if err != nil {
				s.failed(reason.New(reason.NoFile, err))
				continue
			}
			c.files++
			return j, b, src
		}
		c.leave(j) // no process runs it, or its file was closed for others: it is requested again when it is opened
	}
	return nil, nil, nil
}
