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

// Which selects the requests that are exported one by one.
type Which uint8

// Values of Which.
const (
	NoRequests  Which = iota
	SlowOrError       // slow and failed requests
	AllRequests
)

// JournalConfig selects the requests that are exported one by one, and how.
type JournalConfig struct {
	Which Which
	// Slow is the least duration of a slow request.
	Slow time.Duration
	// Top is the number of requests per reason and peer that are exported once more at the end of an interval: those that took longest.
	Top int
	// Spans exports each request as a span, too.
	Spans bool
	// Samples selects the requests that are exported with their content.
	Samples SamplesConfig
	Redact  Redaction
	// Bytes bounds the memory of the requests that wait to be exported.
	Bytes uint64
}

// Enabled reports whether any request is exported one by one.
func (c *JournalConfig) Enabled() bool {
	return c.Which != NoRequests || c.Top > 0 || c.Spans || len(c.Samples.Rules) > 0
}

// Form is how a request is exported.
type Form uint8

// Forms of export.
const (
	AsLog Form = iota
	AsSpan
	AsSample
	forms
)

// Reasons why requests are not exported one by one.
const (
	topLost LossReason = "request_top_full"
	limited LossReason = "request_samples_limited"
)

// lostAs is the loss reason of each form.
var lostAs = [forms]LossReason{AsLog: "request_logs_full", AsSpan: "request_spans_full", AsSample: "request_samples_full"}

// Reason is why a request is exported as a top request: it is among those that took longest, of all or of those with such a status.
type Reason string

// Values of Reason, which are those of the attribute ebpf.reason.
const (
	Slow        Reason = "slow"
	ClientError Reason = "4xx"
	ServerError Reason = "5xx"
)

// Journal keeps requests until they are exported one by one. Its methods may be called from any goroutine.
type Journal struct {
	config JournalConfig

	samples sampler

	mu      sync.Mutex
	writer  l7.RecordWriter
	waiting [forms][]*Request
	spare   [forms][]*Request // empty; the next waiting ones are appended to it
	free    []*Request        // exported, ready for reuse
	tops    map[topKey]*top
	bytes   budget // of all waiting requests
	top     budget // of the top requests
	losses  *Losses
}

// topKey groups top requests.
type topKey struct {
	subject observe.SubjectKey
	peer    netip.AddrPort
	role    l7.Role
	reason  Reason
}

// NewJournal returns an empty journal.
func NewJournal(config JournalConfig) *Journal {
	return &Journal{
		config: config, samples: newSampler(config.Samples), tops: map[topKey]*top{}, losses: NewLosses(),
		bytes: newBudget(config.Bytes), top: newBudget(config.Bytes / topShare),
	}
}

// Add takes an exchange with the target of its first series. wall converts monotonic time, in ns, to wall time.
func (j *Journal) Add(conn Connection, e *l7.Exchange, target string, wall func(ns int64) time.Time) {
	ns, timed := Duration(e)
	took := time.Duration(ns)
	slow := timed && took >= j.config.Slow
	wanted := j.config.Which == AllRequests || j.config.Which == SlowOrError && (slow || e.Operation.Failed(e))
	j.mu.Lock()
	defer j.mu.Unlock()
	var tops [2]topKey
	n := 0
	for _, reason := range [...]Reason{reasonOfTime(slow), reasonOfStatus(e.Operation.StatusClass())} {
		key := topKey{conn.Subject, conn.Peer, e.Role, reason}
		if reason != "" && j.ranks(key, took) {
			tops[n] = key
			n++
		}
	}
	rule, asSpan := j.samples.match(e, took), j.config.Spans && e.Operation.Semantics().Spans != nil
	if !wanted && n == 0 && !asSpan && rule == nil {
		return
	}
	r := j.emptyRequest().take(conn, e, target, &j.config.Redact, &j.writer, wall)
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

// reasonOfTime returns Slow for a slow request, "" for others and those whose duration is unknown.
func reasonOfTime(slow bool) Reason {
	if slow {
		return Slow
	}
	return ""
}

// reasonOfStatus returns the reason for a class of statuses, "" if it is no error.
func reasonOfStatus(class int) Reason {
	switch class {
	case 4:
		return ClientError
	case 5:
		return ServerError
	}
	return ""
}

// wait keeps a request until it is taken, or counts it as lost. The caller holds the lock.
func (j *Journal) wait(r *Request, as Form) {
	if !j.reserve(r, 0) {
		j.losses.Add(r.Subject, lostAs[as], 1)
		return
	}
	r.kept++
	j.waiting[as] = append(j.waiting[as], r)
}

// freeShare is the share of the journal's memory that Request structs kept for reuse may take: of 16 MiB those of 8,000, which is a third of
// a second of 20,000 requests that are all exported.
const freeShare = 4

// requestBytes is the memory of a request without its texts.
const requestBytes = uint64(unsafe.Sizeof(Request{}))

// emptyRequest returns an empty Request, reused if there is one. The caller holds the lock.
func (j *Journal) emptyRequest() *Request {
	last := len(j.free) - 1
	if last < 0 {
		return new(Request)
	}
	r := j.free[last]
	j.free = j.free[:last]
	return r
}

// Release takes back requests that were taken in a form and are exported, and their list, which the caller does not use again.
func (j *Journal) Release(requests []*Request, as Form) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range requests {
		if r.kept--; r.kept == 0 && j.freeBytes() < j.config.Bytes/freeShare {
			*r = Request{} // releases its texts
			j.free = append(j.free, r)
		}
	}
	clear(requests[:cap(requests)])
	j.spare[as] = requests[:0]
}

// reserve accounts for a request's memory, once for each form, and releases the given bytes. If the memory is not available it returns false
// and releases nothing. The caller holds the lock.
func (j *Journal) reserve(r *Request, given uint64) bool {
	return j.bytes.take(r.Subject, r.bytes(), given)
}

// topShare is the share of the journal's memory that top requests may take: with many clients of a server nearly every request is a top
// request, and slow and failed ones need memory, too.
const topShare = 2

// reserveTop accounts for a top request's memory in the bounds of all requests and of top requests, and releases the given bytes. If the
// memory is not available it returns false and releases nothing. The caller holds the lock.
func (j *Journal) reserveTop(r *Request, given uint64) bool {
	if !j.reserve(r, given) {
		return false
	}
	if !j.top.take(r.Subject, r.bytes(), given) {
		j.bytes.give(r.Subject, r.bytes()-given)
		return false
	}
	return true
}

// ranks reports whether a request that took so long is among the top requests now. The caller holds the lock.
func (j *Journal) ranks(key topKey, took time.Duration) bool {
	if j.config.Top == 0 {
		return false
	}
	t := j.tops[key]
	if t != nil && len(t.requests) == j.config.Top {
		return took > t.requests[0].took
	}
	if j.top.used+requestBytes > j.top.most { // even without its texts
		j.losses.Add(key.subject, topLost, 1)
		return false
	}
	return true
}

// rank keeps a request that is among the top ones, or counts it as lost. The caller holds the lock.
func (j *Journal) rank(key topKey, r *Request) {
	t := j.tops[key]
	full, given := t != nil && len(t.requests) == j.config.Top, uint64(0)
	if full {
		given = t.requests[0].bytes()
	}
	if !j.reserveTop(r, given) {
		j.losses.Add(key.subject, topLost, 1)
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

// sample keeps a request with its content until it is taken, or counts it as lost. The caller holds the lock.
func (j *Journal) sample(r *Request, e *l7.Exchange, rule *Rule, wall func(ns int64) time.Time) {
	if !j.samples.allowed(endOf(e)) {
		j.losses.Add(r.Subject, limited, 1)
		return
	}
	with := *r
	with.sample = newSample(e, rule, &j.config.Redact, wall)
	j.wait(&with, AsSample)
}

// Wanted returns the sample rules for which the content of a request and its response is needed, one bit per rule.
func (j *Journal) Wanted(path, query []byte) uint64 { return j.samples.wanted(path, query) }

// Limited returns the number of requests that were not exported as samples because of the limit per second.
func (j *Journal) Limited() uint64 {
	return j.losses.Of(limited)
}

// Take returns the requests that wait to be exported in a form, in the order in which their ends were captured.
func (j *Journal) Take(as Form) []*Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	taken := j.waiting[as]
	j.waiting[as], j.spare[as] = j.spare[as], nil
	for _, r := range taken {
		j.bytes.give(r.Subject, r.bytes())
	}
	return taken
}

// PutBack takes back requests that were taken and cannot be exported yet.
func (j *Journal) PutBack(requests []*Request, as Form) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range requests {
		r.kept--
		j.wait(r, as)
	}
}

// TakeTop returns the top requests since the last call by reason; those of one process and peer are sorted by duration, longest first.
func (j *Journal) TakeTop() map[Reason][]*Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	taken := map[Reason][]*Request{}
	for key, t := range j.tops {
		for i := len(t.requests) - 1; i >= 0; i-- {
			taken[key.reason] = append(taken[key.reason], t.requests[i])
			j.bytes.give(key.subject, t.requests[i].bytes())
			j.top.give(key.subject, t.requests[i].bytes())
		}
	}
	clear(j.tops)
	return taken
}

// Lost returns how many times a request could not be exported in a form for lack of memory.
func (j *Journal) Lost(as Form) uint64 {
	return j.losses.Of(lostAs[as])
}

// TopLost returns how many times a request could not become a top request for lack of memory.
func (j *Journal) TopLost() uint64 {
	return j.losses.Of(topLost)
}

// CountIn makes the journal count its losses in losses.
func (j *Journal) CountIn(losses *Losses) { j.losses = losses }

// Bytes returns the memory of the waiting requests, and of the Request structs kept for reuse.
func (j *Journal) Bytes() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	bytes := j.bytes.used + j.freeBytes()
	for _, list := range j.spare {
		bytes += uint64(cap(list)) * uint64(unsafe.Sizeof((*Request)(nil)))
	}
	return bytes
}

func (j *Journal) freeBytes() uint64 { return uint64(len(j.free)) * requestBytes }
