// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"net/netip"
	"sync"
	"time"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// Which says which requests are told one by one.
type Which uint8

// Choices of requests.
const (
	NoRequests  Which = iota
	SlowOrError       // those that took long, and those that failed
	AllRequests
)

// JournalConfig says which requests are told one by one, and how.
type JournalConfig struct {
	Which Which
	// Slow is the duration from which on a request is slow.
	Slow time.Duration
	// Top is how many are told again at the end of an interval for each reason and peer:
	// those that took longest.
	Top int
	// Spans has every request told as a span, too.
	Spans bool
	// Samples says which are told with their content.
	Samples SamplesConfig
	Redact  Redaction
	// Bytes bounds the memory of those that wait to be told.
	Bytes uint64
}

// Tells says whether any request is told.
func (c *JournalConfig) Tells() bool {
	return c.Which != NoRequests || c.Top > 0 || c.Spans || len(c.Samples.Rules) > 0
}

// Form is what a request is told as.
type Form uint8

// Forms of a request.
const (
	AsLog Form = iota
	AsSpan
	AsSample
	forms
)

// Reason is why a request is told as one of the top ones: of all, or of those with such a
// status, it is one that took longest.
type Reason string

// Reasons, as the attribute ebpf.reason has them.
const (
	Slow        Reason = "slow"
	ClientError Reason = "4xx"
	ServerError Reason = "5xx"
)

// Journal keeps requests that are told one by one until they are. Its methods may be
// called from any goroutine.
type Journal struct {
	config JournalConfig

	samples sampler

	mu      sync.Mutex
	waiting [forms][]*Request
	spare   [forms][]*Request // empty; takes those that wait next
	free    []*Request        // have been told, and take others
	tops    map[topKey]*top
	bytes   uint64 // of all that wait
	top     uint64 // of the top ones
	lost    [forms]uint64
	topLost uint64
}

// topKey is what top requests are kept apart by.
type topKey struct {
	subject observe.SubjectKey
	peer    netip.AddrPort
	role    l7.Role
	reason  Reason
}

// NewJournal returns an empty journal.
func NewJournal(config JournalConfig) *Journal {
	return &Journal{config: config, samples: newSampler(config.Samples), tops: map[topKey]*top{}}
}

// Add takes an exchange of HTTP whose request has the values of [Fields], or a lookup of DNS.
// wall converts monotonic time, in ns.
func (j *Journal) Add(whom Whom, e *l7.Exchange, route string, wall func(ns int64) time.Time) {
	ns, timed := Duration(e)
	took := time.Duration(ns)
	slow := timed && took >= j.config.Slow
	wanted := j.config.Which == AllRequests || j.config.Which == SlowOrError && (slow || failed(e))
	j.mu.Lock()
	defer j.mu.Unlock()
	var tops [2]topKey
	n := 0
	for _, reason := range [...]Reason{reasonOfTime(timed), reasonOfStatus(statusOf(e))} {
		key := topKey{whom.Subject, whom.Peer, e.Role, reason}
		if reason != "" && j.ranks(key, took) {
			tops[n] = key
			n++
		}
	}
	rule, asSpan := j.samples.match(e, took), j.config.Spans && e.HTTP != nil
	if !wanted && n == 0 && !asSpan && rule == nil {
		return
	}
	r := j.place().take(whom, e, route, &j.config.Redact, wall)
	r.slow = slow
	if rule != nil {
		j.sample(r, e, rule, wall)
	}
	if wanted {
		j.wait(r, AsLog)
	}
	if asSpan {
		j.wait(r, AsSpan)
	}
	for _, key := range tops[:n] {
		j.rank(key, r)
	}
}

// reasonOfTime is why a request may be among the top ones whatever its status is; none
// where it is not known how long it took.
func reasonOfTime(timed bool) Reason {
	if timed {
		return Slow
	}
	return ""
}

// reasonOfStatus is the same by its status.
func reasonOfStatus(status int) Reason {
	switch status / 100 {
	case 4:
		return ClientError
	case 5:
		return ServerError
	}
	return ""
}

// wait keeps a request until it is taken. The caller holds the lock.
func (j *Journal) wait(r *Request, as Form) {
	if !j.reserve(r, 0) {
		j.lost[as]++
		return
	}
	r.kept++
	j.waiting[as] = append(j.waiting[as], r)
}

// freeShare is the share of the journal's memory that places of requests which were told may
// take: of 16 MiB those of 8,000, a third of a second of 20,000 each of which is told.
const freeShare = 4

// placeBytes is the memory of a request without its texts.
const placeBytes = uint64(unsafe.Sizeof(Request{}))

// place is one for a request. The caller holds the lock.
func (j *Journal) place() *Request {
	last := len(j.free) - 1
	if last < 0 {
		return new(Request)
	}
	r := j.free[last]
	j.free = j.free[:last]
	return r
}

// Told gives back requests that were taken in a form, and of which nothing is wanted any more, and their list, which is not
// looked at again.
func (j *Journal) Told(requests []*Request, as Form) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range requests {
		if r.kept--; r.kept == 0 && j.freeBytes() < j.config.Bytes/freeShare {
			*r = Request{} // or its texts would stay
			j.free = append(j.free, r)
		}
	}
	clear(requests[:cap(requests)])
	j.spare[as] = requests[:0]
}

// reserve counts a request's memory in place of so much that is given back, once for each
// form; false where there is no room: nothing is given back then. The caller holds the lock.
func (j *Journal) reserve(r *Request, given uint64) bool {
	bytes := j.bytes - given + r.bytes()
	if bytes > j.config.Bytes {
		return false
	}
	j.bytes = bytes
	return true
}

// topShare is the share of the journal's memory that top requests may take: with each of many clients of a server, nearly every request is
// one, and those that are slow or failed need room, too.
const topShare = 2

// reserveTop is the same for one of the top ones.
func (j *Journal) reserveTop(r *Request, given uint64) bool {
	top := j.top - given + r.bytes()
	if top > j.config.Bytes/topShare || !j.reserve(r, given) {
		return false
	}
	j.top = top
	return true
}

// ranks tells whether a request that took so long is among the top ones now. The caller
// holds the lock.
func (j *Journal) ranks(key topKey, took time.Duration) bool {
	if j.config.Top == 0 {
		return false
	}
	t := j.tops[key]
	if t != nil && len(t.requests) == j.config.Top {
		return took > t.requests[0].took
	}
	if j.top+placeBytes > j.config.Bytes/topShare { // whatever its texts
		j.topLost++
		return false
	}
	return true
}

// rank keeps a request that is among the top ones. The caller holds the lock.
func (j *Journal) rank(key topKey, r *Request) {
	t := j.tops[key]
	full, given := t != nil && len(t.requests) == j.config.Top, uint64(0)
	if full {
		given = t.requests[0].bytes()
	}
	if !j.reserveTop(r, given) {
		j.topLost++
		return
	}
	if full {
		t.removeFirst()
	}
	if t == nil {
		t = &top{}
		j.tops[key] = t
	}
	r.kept++
	t.insert(r)
}

// sample keeps a request with its content until it is taken. The caller holds the lock.
func (j *Journal) sample(r *Request, e *l7.Exchange, rule *Rule, wall func(ns int64) time.Time) {
	if !j.samples.allowed(endOf(e)) {
		return
	}
	with := *r
	with.sample = newSample(e, rule, &j.config.Redact, wall)
	j.wait(&with, AsSample)
}

// Wanted tells for which of the rules of samples the content of a request and its response
// is wanted, a bit for each.
func (j *Journal) Wanted(path, query []byte) uint64 { return j.samples.wanted(path, query) }

// Limited is how many requests were not told as samples since there were too many.
func (j *Journal) Limited() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.samples.limited
}

// Take returns the requests that wait to be told in a form, in the order in which they
// ended to be seen.
func (j *Journal) Take(as Form) []*Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	taken := j.waiting[as]
	j.waiting[as], j.spare[as] = j.spare[as], nil
	for _, r := range taken {
		j.bytes -= r.bytes()
	}
	return taken
}

// PutBack has requests wait that were taken and cannot be told yet.
func (j *Journal) PutBack(requests []*Request, as Form) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range requests {
		r.kept--
		j.wait(r, as)
	}
}

// TakeTop returns the top requests since the last call by reason; those of one process
// and peer that took longest come first.
func (j *Journal) TakeTop() map[Reason][]*Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	taken := map[Reason][]*Request{}
	for key, t := range j.tops {
		for i := len(t.requests) - 1; i >= 0; i-- {
			taken[key.reason] = append(taken[key.reason], t.requests[i])
			j.bytes -= t.requests[i].bytes()
		}
	}
	clear(j.tops)
	j.top = 0
	return taken
}

// Lost is how many times a request could not be told in a form for want of memory.
func (j *Journal) Lost(as Form) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost[as]
}

// TopLost is how many times a request could not be among the top ones for want of memory.
func (j *Journal) TopLost() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.topLost
}

// Bytes is the memory of the requests that wait, and of places for others.
func (j *Journal) Bytes() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	bytes := j.bytes + j.freeBytes()
	for _, list := range j.spare {
		bytes += uint64(cap(list)) * uint64(unsafe.Sizeof((*Request)(nil)))
	}
	return bytes
}

func (j *Journal) freeBytes() uint64 { return uint64(len(j.free)) * placeBytes }
