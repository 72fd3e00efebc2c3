// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
)

// Bounds of the queue. What they refuse is requested again with a later sample.
const (
	maxWantedLines = 1 << 14 // frames, of all binaries
	maxLineFiles   = 64      // binaries that wait, each with a file
	linesAtOnce    = 64      // frames that are looked up in one step
	wantedBytes    = 32
	// The reader holds at most this part of the memory, less if the symbolizer's own tables need it, but at least that part.
	lineShareMost, lineShareLeast = 2, 8
)

// lineReader reads debug information concurrently to naming: callers get frames with the names of the symbol table, which refer later to the
// frames with lines. One goroutine does it, and owns what it reads.
type lineReader struct {
	s      *Symbolizer
	charge func(step func()) time.Duration
	tables lineTables
	jobs   []*lineJob // that were begun, the next one first

	wake chan struct{}
	stop context.CancelFunc
	done sync.WaitGroup

	// Guarded by the mutex of the Symbolizer.
	queue   []*binary
	waiting int // frames
	files   int // open for frames that wait
	held    int64
	squeeze bool // the symbolizer needs memory
	over    bool
}

// lineJob is a batch of requests for one binary.
type lineJob struct {
	bin     *binary
	wanted  []wantedLines
	file    source // nil when nothing is wanted
	asker   viewer
	arrived debuginfo.File
}

// startLineReader begins to read for a symbolizer.
func startLineReader(s *Symbolizer, cache *debuginfo.Cache, charge func(func()) time.Duration) *lineReader {
	if charge == nil {
		charge = func(step func()) time.Duration {
			step()
			return 0
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &lineReader{s: s, charge: charge, wake: make(chan struct{}, 1), stop: stop}
	r.tables = newLineTables(s, cache, s.memory/lineShareMost)
	r.done.Go(func() { r.run(ctx) })
	return r
}

// close cancels the work in progress and waits for its end. The symbolizer must not be locked.
func (r *lineReader) close() error {
	if r == nil {
		return nil
	}
	r.stop()
	r.done.Wait()
	return r.end()
}

func (r *lineReader) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		for ctx.Err() == nil && r.next() {
			rest(ctx, r.charge(r.work))
		}
	}
}

// rest waits for a time, or until the context ends.
func rest(ctx context.Context, pause time.Duration) {
	if pause <= 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// next takes what was requested since the last call, and reports whether there is work.
func (r *lineReader) next() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, b := range r.queue {
		ask := &b.lines
		r.jobs = append(r.jobs, &lineJob{bin: b, wanted: ask.wanted, file: ask.file, asker: ask.asker, arrived: ask.arrived})
		ask.wanted, ask.file, ask.arrived, ask.queued = nil, nil, debuginfo.File{}, false
	}
	r.queue = r.queue[:0]
	s := r.s
	r.tables.limit = min(max(s.memory-s.tableBytes-s.otherBytes(), s.memory/lineShareLeast), s.memory/lineShareMost)
	squeeze := r.squeeze
	r.squeeze = false
	return len(r.jobs) > 0 || squeeze
}

// work does a step of the first job, and puts the rest of it behind the others.
func (r *lineReader) work() {
	if len(r.jobs) == 0 {
		r.tables.trim()
		r.account(nil, nil)
		return
	}
	j := r.take()
	if len(j.wanted) == 0 {
		r.tables.visit(j)
		r.account(j, nil)
		return
	}
	if r.tables.prepare(j) {
		r.tables.rest(j)
		r.account(j, nil)
		r.jobs = append(r.jobs, j)
		return
	}
	found := make([][]namedLine, min(len(j.wanted), linesAtOnce))
	for i := range found {
		found[i] = r.tables.find(j, j.wanted[i])
	}
	r.tables.rest(j)
	r.account(j, found)
	if len(j.wanted) > 0 {
		r.jobs = append(r.jobs, j)
	}
}

// take takes the next job: those that wait for the checksum of a debug file, which may be large, only when there is no other.
func (r *lineReader) take() *lineJob {
	at := max(slices.IndexFunc(r.jobs, func(j *lineJob) bool { return !r.tables.summing(j.bin) }), 0)
	j := r.jobs[at]
	r.jobs = slices.Delete(r.jobs, at, at+1)
	if t := r.tables.of[j.bin]; t != nil && t.search != nil && !r.runs(j.bin) {
		r.tables.stopSearch(t)
	}
	return j
}

// runs reports whether any process runs a binary.
func (r *lineReader) runs(b *binary) bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	_, known := r.s.all[b]
	return known && b.tables().refs > 0
}

// account distributes the results for the first frames of a job, if there is one, and records what is held now.
func (r *lineReader) account(j *lineJob, found [][]namedLine) {
	bytes := r.tables.bytes()
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	r.held = bytes
	if j == nil {
		return
	}
	for i, lines := range found {
		s.settle(j.bin, j.wanted[i].e, lines)
	}
	j.wanted = j.wanted[len(found):]
	r.given(len(found))
	r.tables.record(j.bin)
	if len(j.wanted) == 0 && j.file != nil {
		r.files--
		s.discard(j.bin.path, j.file)
		j.file = nil
	}
	s.makeRoom(0, nil)
}

// given counts frames that wait no longer.
func (r *lineReader) given(n int) {
	r.waiting -= n
	r.s.settledNow()
}

// end completes the remaining requests and frees everything. The goroutine has ended.
func (r *lineReader) end() error {
	r.next()
	errs := []error{r.tables.close()}
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range r.jobs {
		for _, w := range j.wanted {
			s.settle(j.bin, w.e, nil)
		}
		if j.file != nil {
			errs = append(errs, j.file.Close())
			r.files--
		}
		if j.arrived.Close != nil {
			errs = append(errs, j.arrived.Close())
		}
	}
	r.given(r.waiting)
	r.jobs, r.held, r.over = nil, 0, true
	return errors.Join(errs...)
}

// The functions below are called with the mutex of the symbolizer held. The reader may be nil.

// enqueue has the reader visit a binary.
func (r *lineReader) enqueue(b *binary) {
	if b.lines.queued || r.over {
		return
	}
	b.lines.queued = true
	r.queue = append(r.queue, b)
	r.rouse()
}

func (r *lineReader) rouse() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}

// leave is called when no process runs a binary any more.
func (r *lineReader) leave(b *binary) {
	if r != nil && b.lines.held {
		r.enqueue(b)
	}
}

// bytesHeld is the memory in use for lines.
func (r *lineReader) bytesHeld() int64 {
	if r == nil {
		return 0
	}
	return r.held + int64(r.waiting)*wantedBytes
}

// giveWay makes the reader hold less: the symbolizer needs memory, and has nothing left to evict.
func (r *lineReader) giveWay() {
	if r == nil || r.held == 0 || r.over {
		return
	}
	r.squeeze = true
	r.rouse()
}

// filesHeld is how many files of processes are open for lines.
func (r *lineReader) filesHeld() int {
	if r == nil {
		return 0
	}
	return r.files
}

// linesWait is how many frames wait for lines.
func (r *lineReader) linesWait() int {
	if r == nil {
		return 0
	}
	return r.waiting
}

// settledNow completes the waits for frames when none waits for its name or its lines any more. The symbolizer is locked.
func (s *Symbolizer) settledNow() {
	if s.lines.linesWait() > 0 || s.names.waiting() > 0 {
		return
	}
	if s.settled != nil {
		close(s.settled)
		s.settled = nil
	}
}

// Settled returns a channel that is closed when the returned frames have their names and lines.
func (s *Symbolizer) Settled() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled == nil {
		s.settled = make(chan struct{})
	}
	settled := s.settled
	s.settledNow()
	return settled
}

// AwaitLines waits until the returned frames have their names and lines, at most for some time, and reports whether they have.
func (s *Symbolizer) AwaitLines(limit time.Duration) bool {
	settled := s.Settled()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-settled:
		return true
	default:
	}
	select {
	case <-settled:
		return true
	case <-timer.C:
		return false
	}
}
