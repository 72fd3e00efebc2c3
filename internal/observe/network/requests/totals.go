// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"net/netip"
	"sync"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/route"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

const (
	// maxRoutes is how many routes a process has; what is more has one of its own.
	maxRoutes = 200
	// maxSeries is how many series there are of all processes; what is more goes to one
	// of overflow for each process.
	maxSeries = 8192
	// idleReports is how many reports a process is told of after its last request.
	idleReports = 150
)

// Whom is who took part in an exchange.
type Whom struct {
	Subject observe.SubjectKey
	// Server is the other end of a client's connection, where it is known.
	Server netip.AddrPort
}

// Totals are what was counted since the start. Its methods may be called from any
// goroutine.
type Totals struct {
	mu        sync.Mutex
	processes map[observe.SubjectKey]*process
	series    int
	overflown uint64
	exchanges uint64
	now       func() time.Time
}

// process is what one process did.
type process struct {
	known  *model.Process // nil until it was asked for
	series map[key]*series
	routes *route.Table
	idle   int
}

// key is what tells series of a process apart.
type key struct {
	role      l7.Role
	method    string
	route     string // "" where the request was not seen
	version   string
	status    int
	errorType string
	server    netip.AddrPort // of a client
	overflow  bool
}

// series is what was counted of one key.
type series struct {
	attributes []model.Attribute
	start      time.Time
	duration   distribution
	// sizes are those of the request's body, the response's, and the whole messages.
	sizes [4]distribution
}

// NewTotals returns totals of nothing.
func NewTotals() *Totals {
	return &Totals{processes: map[observe.SubjectKey]*process{}, now: time.Now}
}

// Add counts an exchange of HTTP. Requests that ended without a response count with
// what is known of them.
func (t *Totals) Add(whom Whom, e *l7.Exchange) {
	if e.HTTP == nil || e.Role == l7.RoleUnknown || !e.Request.Known && !e.Response.Known {
		return
	}
	k := key{
		role: e.Role, method: e.HTTP.Method, version: e.HTTP.Version, status: e.HTTP.Status, errorType: e.ErrorType,
	}
	if k.method == "" {
		k.method = l7.OtherMethod // its request was not seen
	}
	if e.Role == l7.RoleClient {
		k.server = whom.Server
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.exchanges++
	p := t.process(whom.Subject)
	if e.Request.Known {
		k.route = p.routes.Of(e.HTTP.Path)
	}
	s := t.find(p, k)
	if took, ok := duration(e); ok {
		s.duration.add(durationBounds, float64(took)/1e9)
	}
	for i, size := range []int64{e.Request.Body, e.Response.Body, e.Request.Whole, e.Response.Whole} {
		side := &e.Request
		if i%2 == 1 {
			side = &e.Response
		}
		if side.Known && side.Ended && size >= 0 {
			s.sizes[i].add(sizeBounds, float64(size))
		}
	}
}

// duration is how long the exchange took; of one without a response until the
// connection was given up.
func duration(e *l7.Exchange) (ns int64, ok bool) {
	if took, ok := e.Duration(); ok {
		return max(took, 0), true
	}
	if e.Request.Known && e.Response.Known && e.Response.Last >= e.Request.First {
		return e.Response.Last - e.Request.First, true
	}
	return 0, false
}

// process returns what is known of a process that has just been seen. The caller
// holds the lock.
func (t *Totals) process(subject observe.SubjectKey) *process {
	p := t.processes[subject]
	if p == nil {
		p = &process{series: map[key]*series{}, routes: route.NewTable(maxRoutes)}
		t.processes[subject] = p
	}
	p.idle = 0
	return p
}

// find returns the series of a process with a key. The caller holds the lock.
func (t *Totals) find(p *process, k key) *series {
	if s := p.series[k]; s != nil {
		return s
	}
	if t.series >= maxSeries {
		t.overflown++
		k = key{role: k.role, overflow: true}
		if s := p.series[k]; s != nil {
			return s
		}
	}
	s := &series{attributes: k.attributes(), start: t.now()}
	p.series[k] = s
	t.series++
	return s
}

// Name asks whose the requests are that were seen since: who returns nil for a process
// that is out of scope.
func (t *Totals) Name(who func(observe.SubjectKey) *model.Process) {
	t.mu.Lock()
	var unknown []observe.SubjectKey
	for subject, p := range t.processes {
		if p.known == nil {
			unknown = append(unknown, subject)
		}
	}
	t.mu.Unlock()
	for _, subject := range unknown {
		known := who(subject)
		t.mu.Lock()
		if p := t.processes[subject]; p != nil {
			p.known = known
		}
		t.mu.Unlock()
	}
}

// Metrics returns what was counted. Of a role other than only, unless it is
// [l7.RoleUnknown], nothing is told.
func (t *Totals) Metrics(at time.Time, only l7.Role) []*model.Metrics {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*model.Metrics
	for subject, p := range t.processes {
		if p.known != nil {
			if told := p.metrics(only); len(told) > 0 {
				list = append(list, &model.Metrics{Process: p.known, Time: at, Metrics: told})
			}
		}
		if p.idle++; p.idle > idleReports {
			t.series -= len(p.series)
			delete(t.processes, subject)
		}
	}
	return list
}

// Exchanges is how many were counted, Overflown how many of them found no series of
// their own.
func (t *Totals) Exchanges() (counted, overflown uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exchanges, t.overflown
}
