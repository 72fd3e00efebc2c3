// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"net/netip"
	"sync"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// Connection is the connection that carried an exchange, as the observed process has it.
type Connection struct {
	Subject observe.SubjectKey
	// Peer is the remote address, zero while it is unknown; its port is 0 if the peer is the client.
	Peer netip.AddrPort
	// Series and Generation identify the connection's series in the kernel.
	Series, Generation uint32
	// TLS: the exchange was carried within TLS.
	TLS bool
}

// Totals holds what was counted since the start. Its methods may be called from any goroutine.
type Totals struct {
	mu       sync.Mutex
	subjects map[observe.SubjectKey]*subject
	// byResource are the processes that are known to be in scope.
	byResource map[model.Resource]*process
	// byInstance makes the resources service instances, which stay without a process until their series have been idle for long.
	byInstance bool
	// exponential makes histograms use exponential buckets.
	exponential bool
	// peerOf returns the peer of a connection by its series in the kernel, nil while it is unknown. If peerOf is nil, no peers are reported.
	peerOf func(series, generation uint32) *Peer
	// pending is the number of series whose peers are not known yet.
	pending int
	// retired counts series that ended after being idle for long.
	retired uint64
	// series is the number of series, most its bound, and ending the number of further series that wait for their last export.
	series, most, ending int
	unnamed              l7.Unnamed
	exchanges            uint64
	undecided            uint64 // requests
	unattributed         uint64 // requests
	now                  func() time.Time
	redact               Redaction
	// count is the exchange that is being counted in the series key: here they are not allocated each time.
	count l7.Count
	key   key
}

// NewTotals returns empty totals.
func NewTotals(redact Redaction) *Totals {
	t := &Totals{subjects: map[observe.SubjectKey]*subject{}, byResource: map[model.Resource]*process{}, most: maxSeries, now: time.Now, redact: redact}
	t.count.Redaction, t.count.Key = &t.redact, &t.key.Key
	return t
}

// ByInstance makes the totals count by service instance. It must be called before anything is counted.
func (t *Totals) ByInstance() { t.byInstance = true }

// Exponential makes histograms use exponential buckets. It must be called before anything is counted, and before [Totals.Bound].
func (t *Totals) Exponential() { t.exponential = true }

// Add counts an exchange, and returns the target of its first series. Requests that ended without a response count with what is known of them.
// Add returns false if the exchange does not count: its process is known to be out of scope, or there is no metric for the exchange.
func (t *Totals) Add(conn Connection, e *l7.Exchange) (target string, counted bool) {
	of := semanticsOf(e)
	if of == nil {
		return "", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.process(conn.Subject)
	if p == nil {
		return "", false
	}
	t.exchanges++
	c := &t.count
	c.Peer, c.TLS, c.Names, c.Unnamed = conn.Peer, conn.TLS, &p.names, t.unnamedOf(p)
	for i, more := 0, true; more; i++ {
		c.Begin(e, of)
		more = e.Operation.Count(i, e, c)
		if c.Key.Semantics.Metrics[c.Key.Role] != nil {
			t.findFor(p, &t.key, &conn).add(e, c)
		}
		if i == 0 {
			target = c.Key.Target
		}
	}
	return target, true
}

// semanticsOf returns how an exchange is exported, nil if there is no metric for it.
func semanticsOf(e *l7.Exchange) *l7.Semantics {
	if !e.Request.Known && !e.Response.Known {
		return nil
	}
	if of := e.Operation.Semantics(); of != nil && of.Metrics[e.Role] != nil {
		return of
	}
	return nil
}

// AddUnattributed counts an exchange as lost because its process is unknown: the connection has no series in the kernel, or lost it before
// the exchange ended.
func (t *Totals) AddUnattributed(e *l7.Exchange) {
	if semanticsOf(e) == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unattributed++
}

// Unattributed returns the number of requests that were lost because their process is unknown.
func (t *Totals) Unattributed() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unattributed
}

// Metrics returns what was counted. Unless only is [l7.RoleUnknown], exchanges of the other role are left out.
func (t *Totals) Metrics(at time.Time, only l7.Role) []*model.Metrics {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*model.Metrics, 0, len(t.byResource))
	for _, p := range t.byResource {
		if exported := p.metrics(only); len(exported) > 0 {
			list = append(list, &model.Metrics{Process: p.known, Time: at, Metrics: exported})
		}
		t.noteExported(p)
	}
	return list
}

// Unnamed returns the number of exchanges exported without a text, host, peer or series of their own.
func (t *Totals) Unnamed() l7.Unnamed {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all l7.Unnamed
	all.Add(&t.unnamed) // a copy
	return all
}

// Retired returns the number of series that ended after being idle for long.
func (t *Totals) Retired() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.retired
}

// Exchanges returns the number of exchanges that were counted, and how many of them counted in an overflow series.
func (t *Totals) Exchanges() (counted, overflown uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exchanges, t.unnamed.Series
}
