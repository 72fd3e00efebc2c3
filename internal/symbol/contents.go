// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
)

const (
	// sumNow is how many bytes of a new file are summed at once, some 0.3 ms of work. sumBurst and sumRate bound that for all new files, at a
	// time and per second. Other files are separate binaries until a lane has summed them.
	sumNow, sumBurst, sumRate = 1 << 20, 64 << 20, 8 << 20
	// maxSums bounds the files that wait to be summed, and maxSummed the binaries that wait for one of them: its links and bind mounts.
	maxSums, maxSummed = 1024, 1024
	// maxSumsKnown bounds the sums that are cached, in each of two generations.
	maxSumsKnown = 1024
	// sumJobBytes is the assumed size of one that waits or is cached.
	sumJobBytes = 192
)

// contents finds out which files have the same content and so share tables, by a sum over them. It is made in a lane of its own, since
// nothing that reads memory maps may wait for files, and once for each version of a file, whatever its paths are. A nil one sums all files at
// once.
type contents struct {
	s      *Symbolizer
	charge func(step func()) (pause time.Duration)
	wake   chan struct{}
	stop   context.CancelFunc
	done   sync.WaitGroup
	now    func() time.Time

	// Guarded by the mutex of the Symbolizer.
	results, older map[string]contentResult // by the identity of the file
	jobs           map[string]*sumJob       // by the same, with the one in progress
	queue          []*sumJob
	spent          budget.Spending
	allowed        uint64 // bytes that may be summed at once
	allowedAt      time.Time
	files          int
	over           bool
}

// summing is the state of a binary's sum.
type summing struct {
	sum      *contentSum // while the binary is made
	unsummed bool        // the sum is not known yet
	job      *sumJob     // that it waits for; nil: the queue was full, it is requested again
	// spaces are those that have the binary mapped while the sum is not known.
	spaces map[*AddressSpace]struct{}
	united *binary // that it was found to be the same as
}

// sumJob is a file that is to be summed.
type sumJob struct {
	identity string
	owner    uint32 // of the file, the only user who can make many of them
	bins     []*binary
}

// startContents begins to sum for a symbolizer.
func startContents(s *Symbolizer, charge func(func()) time.Duration) *contents {
	if charge == nil {
		charge = func(step func()) time.Duration {
			step()
			return 0
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &contents{
		s: s, charge: charge, wake: make(chan struct{}, 1), stop: stop, results: map[string]contentResult{}, jobs: map[string]*sumJob{},
		spent: budget.NewSpending(), allowed: sumBurst, allowedAt: s.now(), now: s.now,
	}
	c.done.Go(func() { c.run(ctx) })
	return c
}

// close cancels the work in progress and waits for its end, some milliseconds. The symbolizer must not be locked.
func (c *contents) close() {
	if c == nil {
		return
	}
	c.stop()
	c.done.Wait()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.over, c.queue, c.jobs, c.results, c.older = true, nil, nil, nil, nil
}

func (c *contents) run(ctx context.Context) {
	for {
		for ctx.Err() == nil {
			j, b, src := c.next()
			if j == nil {
				break
			}
			r, err := c.sumFile(ctx, j, b, src)
			c.finish(j, src, r, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
	}
}

// begin sums the file of a new binary if that takes little, or finds the sum of the file that was made for another path or process.
func (c *contents) begin(b *binary) {
	if b.sum == nil {
		return
	}
	if c == nil {
		b.sumAtOnce()
		return
	}
	if b.private {
		b.sum = nil
		return
	}
	c.s.mu.Lock()
	r, ok := c.result(b.origin.identity)
	now := !ok && c.allow(b.sum.bytes)
	c.s.mu.Unlock()
	switch {
	case ok:
		b.summed(r)
	case now:
		r = b.sum.all(b.content.lines)
		b.summed(r)
		c.s.mu.Lock()
		c.remember(b.origin.identity, r)
		c.s.mu.Unlock()
	default:
		b.sum, b.unsummed = nil, true
	}
}

// pace does a step of a job, and waits as long as the budget requires. It returns errStopped when the symbolizer is being closed or no
// process runs the file any more.
func (c *contents) pace(ctx context.Context, j *sumJob, step func()) error {
	var used time.Duration
	pause := c.charge(func() { used = budget.CPUTimeOf(step) })
	rest(ctx, pause)
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.spent.Add(budget.Account(j.owner), used)
	if ctx.Err() != nil || !c.wanted(j) {
		return errStopped
	}
	return nil
}

// sumFile sums a file. Parts that were not in the page cache before are dropped from it, so that they do not evict what other programs use.
func (c *contents) sumFile(ctx context.Context, j *sumJob, b *binary, src source) (contentResult, error) {
	var sum *contentSum
	var lines bool
	var cold coldRanges
	err := c.pace(ctx, j, func() {
		f, err := elfimage.Parse(elfimage.Image{Src: src, Size: b.size})
		if err != nil {
			return
		}
		if sum, lines = newContentSum(f); sum != nil {
			cold = coldOf(src, sum.chunks)
		}
	})
	if sum == nil || err != nil {
		return contentResult{}, err
	}
	defer cold.drop()
	for more := true; more; {
		var errRead error
		errPace := c.pace(ctx, j, func() {
			more, errRead = sum.step()
			cold.passed()
		})
		if errPace != nil {
			return contentResult{}, errPace
		}
		if errRead != nil {
			return contentResult{}, nil // it is no longer than its headers claim
		}
	}
	if !unchanged(src, b.key) {
		return contentResult{}, nil
	}
	return contentResult{sum.hash.Sum64(), lines, true}, nil
}

// unchanged reports whether a file is what it was when its binary was made. It may have other links or permissions.
func unchanged(src source, key fileKey) bool {
	file, ok := src.(interface{ version() (fileKey, error) })
	if !ok {
		return true
	}
	now, err := file.version()
	now.path = key.path
	return err == nil && now == key
}

// finish distributes the result of a job.
func (c *contents) finish(j *sumJob, src source, r contentResult, err error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c.files--
	s.discard(j.bins[0].path, src)
	c.leave(j)
	if errors.Is(err, errStopped) {
		c.askAgain(j)
		return
	}
	c.remember(j.identity, r)
	for _, b := range j.bins {
		if _, known := s.all[b]; known && b.unsummed {
			b.summed(r)
			s.share(b)
		}
	}
}
