// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

const (
	// maxWantedNames bounds the frames that wait for a name, of all binaries. The next sample requests those beyond again.
	maxWantedNames = 1 << 15
	// maxNameFiles bounds the binaries that wait in a lane, each with an open file, of the users together, and askerFiles those that one
	// process requests.
	maxNameFiles, askerFiles = 48, 6
	// maxWantedOf bounds the frames of one binary that wait.
	maxWantedOf = 256
)

// errStopped ends work on a table when the symbolizer is closed.
var errStopped = errors.New("the symbolizer is being closed")

// namer reads symbol tables concurrently: a frame that is requested before its binary's table exists has its name later, see [model.Frame].
// There are two lanes, each a goroutine with a budget of its own, so that small tables do not wait for large ones.
type namer struct {
	s     *Symbolizer
	lanes [2]lane
	stop  context.CancelFunc
	done  sync.WaitGroup

	// Guarded by the mutex of the Symbolizer.
	pending map[*entry]struct{} // frames that wait
	over    bool
	spent   budget.Spending
}

// lane is one goroutine of a namer and its work.
type lane struct {
	n      *namer
	large  bool
	charge func(step func()) (pause time.Duration)
	wake   chan struct{}
	buf    []byte
	pages  *elfsym.Pages // of names of aliases

	// Guarded by the mutex of the Symbolizer.
	queue []*binary
	files int // open for binaries that wait or are being read
}

// nameAsk has the requests for a binary's tables. It is guarded by the mutex of the Symbolizer.
type nameAsk struct {
	wanted  []wantedName // that no lane has taken yet
	file    source       // for the lane, as long as the binary is queued
	reading source       // used to name frames instead of the binary's own file, which may have been closed
	asker   nameAsker    // the last requesting process
	queued  bool
	large   bool
}

// nameAsker is a process that requests names, and its user.
type nameAsker struct {
	user budget.Account
	pid  uint32
}

// wantedName is a frame whose name is wanted, or, without an entry, an address of the binary.
type wantedName struct {
	a        *AddressSpace
	at       *region
	frames   *binary // that has the frame: the binary, or a view of it
	e        *entry
	pc, addr uint64 // in the process and in the binary
}

// startNamer begins to read tables for a symbolizer. The charges do a step of the work and return how long the next one must wait.
func startNamer(s *Symbolizer, small, large func(step func()) time.Duration) *namer {
	ctx, stop := context.WithCancel(context.Background())
	n := &namer{s: s, stop: stop, pending: map[*entry]struct{}{}, spent: budget.NewSpending()}
	for i, charge := range [2]func(func()) time.Duration{small, large} {
		n.lanes[i] = lane{n: n, large: i == 1, charge: charge, wake: make(chan struct{}, 1), buf: make([]byte, elfsym.ScratchBytes), pages: elfsym.NewPages(0)}
		n.done.Go(func() { n.lanes[i].run(ctx) })
	}
	return n
}

// close cancels the work in progress and waits for its end, some milliseconds. The symbolizer must not be locked.
func (n *namer) close() {
	if n == nil {
		return
	}
	n.stop()
	n.done.Wait()
	s := n.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n.lanes {
		for _, b := range n.lanes[i].queue {
			wanted, file := b.names.take()
			for _, w := range wanted {
				n.giveUp(w)
			}
			n.lanes[i].closeFile(b, file)
		}
		n.lanes[i].queue = nil
	}
	n.over = true
	s.settledNow()
}

func (l *lane) run(ctx context.Context) {
	for {
		for ctx.Err() == nil {
			j := l.next(ctx)
			if j == nil {
				break
			}
			j.run()
		}
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
	}
}

// next takes the first binary of the user who has recently used the least.
func (l *lane) next(ctx context.Context) *nameJob {
	n, s := l.n, l.n.s
	s.mu.Lock()
	defer s.mu.Unlock()
	n.spent.Forget(s.now())
	best := -1
	for i, b := range l.queue {
		if best < 0 || n.spent.Of(b.names.asker.user) < n.spent.Of(l.queue[best].names.asker.user) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	b := l.queue[best]
	l.queue = append(l.queue[:best], l.queue[best+1:]...)
	j := &nameJob{s: s, lane: l, ctx: ctx, bin: b, asker: b.names.asker, golang: b.golang, symbols: b.symbols}
	j.wanted, j.file = b.names.take()
	j.image = elfimage.Image{Src: j.file, Size: b.size}
	return j
}

// take empties the request.
func (k *nameAsk) take() ([]wantedName, source) {
	wanted, file := k.wanted, k.file
	k.wanted, k.file, k.queued = nil, nil, false
	return wanted, file
}

// The functions below are called with the mutex of the symbolizer held. The namer may be nil.

// ask requests the name of a frame, or the tables of a binary if there is no entry. It reports false if the frame does not wait.
func (n *namer) ask(b *binary, w wantedName) bool {
	if n.over || len(n.pending) >= maxWantedNames || len(b.names.wanted) >= maxWantedOf {
		return false
	}
	if w.a != nil {
		// A file that others have requested, too, does not wait longer than it would for them.
		if k := w.a.asker(); !b.names.queued || n.spent.Of(k.user) < n.spent.Of(b.names.asker.user) {
			b.names.asker = k
		}
	}
	if !b.names.queued && !n.enqueue(b) {
		return false
	}
	b.names.wanted = append(b.names.wanted, w)
	if w.e != nil {
		n.pending[w.e] = struct{}{}
	}
	return true
}

// enqueue queues a binary, with a file of its own.
func (n *namer) enqueue(b *binary) bool {
	src, ok := b.file.(interface{ again() (source, error) })
	if !ok || !n.laneOf(b).admit(b.names.asker) {
		return false
	}
	file, err := src.again()
	if err != nil {
		n.s.failed(reason.New(reason.NoFile, err))
		return false
	}
	n.put(b, file)
	return true
}

func (n *namer) laneOf(b *binary) *lane {
	if b.names.large {
		return &n.lanes[1]
	}
	return &n.lanes[0]
}

// asker is the process as one that requests names. An unknown user is not a user of its own.
func (a *AddressSpace) asker() nameAsker {
	k := nameAsker{user: budget.Unknown, pid: a.id.PID}
	if d := a.identity().domain; d != (domain{}) {
		k.user = d.payer
	}
	return k
}

// admit reports whether a lane takes a further binary for a process. If it is full, the user with most binaries waiting gives up one for
// users with fewer, and so does the process with most for other processes of its user: any number of processes can be forked.
func (l *lane) admit(k nameAsker) bool {
	users, processes := map[budget.Account]int{}, map[nameAsker]int{}
	for _, b := range l.queue {
		users[b.names.asker.user]++
		processes[b.names.asker]++
	}
	if processes[k] >= askerFiles {
		return false
	}
	if l.files < min(maxNameFiles, l.n.s.maxOpen) {
		return true
	}
	victim := -1
	var most nameAsker
	for i, b := range l.queue {
		of := b.names.asker
		if victim < 0 || users[of.user] > users[most.user] || users[of.user] == users[most.user] && processes[of] >= processes[most] {
			victim, most = i, of
		}
	}
	if victim < 0 || most.user != k.user && users[most.user] <= users[k.user]+1 || most.user == k.user && processes[most] <= processes[k]+1 {
		return false
	}
	l.displace(victim)
	return true
}

// displace drops a waiting binary: its frames are requested again.
func (l *lane) displace(i int) {
	b := l.queue[i]
	l.queue = append(l.queue[:i], l.queue[i+1:]...)
	wanted, file := b.names.take()
	for _, w := range wanted {
		l.n.giveUp(w)
	}
	l.closeFile(b, file)
}

func (n *namer) put(b *binary, file source) {
	l := n.laneOf(b)
	l.files++
	b.names.file, b.names.queued = file, true
	l.queue = append(l.queue, b)
	select {
	case l.wake <- struct{}{}:
	default: // it is awake
	}
}

// giveUp ends the wait of a frame that gets no name.
func (n *namer) giveUp(w wantedName) {
	if e := w.e; e != nil {
		delete(n.pending, e)
		e.pending = false
		n.s.count.frames[e.cause] += uint64(e.unsettled)
		e.unsettled = 0
		n.s.removeFrame(w.frames, e)
	}
}

// closeFile closes a file that a lane was given.
func (l *lane) closeFile(b *binary, file source) {
	if file == nil {
		return
	}
	l.files--
	l.n.s.discard(b.path, file)
}

// waiting is how many frames wait.
func (n *namer) waiting() int {
	if n == nil {
		return 0
	}
	return len(n.pending)
}

// filesHeld is how many files of processes are open for names.
func (n *namer) filesHeld() int {
	if n == nil {
		return 0
	}
	return n.lanes[0].files + n.lanes[1].files
}

// Exported counts the frames that were exported without the names that they still wait for.
func (s *Symbolizer) Exported() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		return
	}
	for e := range s.names.pending {
		s.count.frames[e.cause] += uint64(e.unsettled)
		e.unsettled = 0
	}
}
