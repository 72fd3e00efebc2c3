// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"bytes"
	"maps"
	"net/http"
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
	// maxNames is how many names a process looks up that are told; what is more goes to
	// one of overflow. maxMethods is the same of the methods of calls, of which more are
	// told as others.
	maxNames   = 200
	maxMethods = 200
	// maxHosts is how many hosts a process asks that are told by name; more are told by their address.
	maxHosts = 200
	// longestHost is how long what a request says in Host may be to be told: a name and a port are no longer.
	longestHost = 260
	// maxSeries is how many series there are of all processes, maxOfProcess of one; what is
	// more goes to one of overflow for each process.
	maxSeries    = 8192
	maxOfProcess = maxSeries / 4
	// idleReports is how many reports a process and each of its series is told of after its
	// last request, idleAfterEnd a process that may have ended.
	idleReports  = 150
	idleAfterEnd = 2
)

// Whom is who took part in an exchange.
type Whom struct {
	Subject observe.SubjectKey
	// Peer is the other end of the connection, where it is known; its port is 0 where
	// that is the client.
	Peer netip.AddrPort
	// Series and Generation name the kernel's series of the connection.
	Series, Generation uint32
	// TLS says that it was carried within TLS.
	TLS bool
}

// Totals are what was counted since the start. Its methods may be called from any
// goroutine.
type Totals struct {
	mu       sync.Mutex
	subjects map[observe.SubjectKey]*subject
	// told are those that have been asked about and are in scope.
	told      map[model.Resource]*process
	series    int
	overflown uint64
	unnamed   Unnamed
	exchanges uint64
	now       func() time.Time
	redact    Redaction
}

// Unnamed is how many exchanges were told without their own route, name, method or host,
// since their process had as many as it may have.
type Unnamed struct {
	Routes, Names, Methods, Hosts uint64
}

// subject is one program that a process runs.
type subject struct {
	*process      // nil where it is out of scope
	idle     int  // reports since its last request
	asked    bool // whose it is
}

// process is what a process did, whichever of the programs that it has run one after
// the other, unless they differ in what is told of them.
type process struct {
	known  *model.Process // nil until it was asked for
	series map[key]*series
	// newest is the series that has counted last, with newestKey, nil where that has left: most requests are as the one before.
	newest    *series
	newestKey key
	routes    *route.Table
	names     texts
	methods   texts
	hosts     map[string]endpoint // by what requests say in Host
	subjects  int
	// unkept says that there may be routes, names, methods and hosts which no series has.
	unkept bool
}

func newProcess() *process {
	return &process{
		series: map[key]*series{}, routes: route.NewTable(maxRoutes), names: newTexts(maxNames), methods: newTexts(maxMethods),
		hosts: map[string]endpoint{}, subjects: 1,
	}
}

// endpoint is a server as requests name it; its port is 0 where they do not.
type endpoint struct {
	host string
	port uint16
}

// key is what tells series of a process apart.
type key struct {
	kind      kind
	role      l7.Role
	method    string
	route     string // "" where the request was not seen
	version   string
	status    int
	errorType string
	asked     endpoint       // of a client: whom it asked
	server    netip.AddrPort // where its connection leads to, if that is not known
	tls       bool
	name      string // of a lookup, or the full method of a call
	code      string // of a call: its status
	overflow  bool
}

// kind is what an exchange is counted as.
type kind uint8

const (
	httpRequest kind = iota
	lookup
	call
)

// series is what was counted of one key.
type series struct {
	attributes []model.Attribute
	start      time.Time
	idle       int // reports since it has counted
	duration   distribution
	// sizes are those of the request's body, the response's, and the whole messages.
	sizes [4]distribution
}

// NewTotals returns totals of nothing.
func NewTotals(redact Redaction) *Totals {
	return &Totals{subjects: map[observe.SubjectKey]*subject{}, told: map[model.Resource]*process{}, now: time.Now, redact: redact}
}

// Add counts an exchange, and returns the route of a request of HTTP if that is known.
// Requests that ended without a response count with what is known of them. What is out
// of scope does not count, as far as that is known: false then. Nor does what there is no
// metric for.
func (t *Totals) Add(whom Whom, e *l7.Exchange) (route string, counted bool) {
	if !e.Request.Known && !e.Response.Known {
		return "", false
	}
	switch {
	case e.HTTP != nil && e.Role != l7.RoleUnknown:
	case e.DNS != nil && e.Role == l7.RoleClient && len(e.DNS.Questions) > 0:
	default:
		return "", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.process(whom.Subject)
	if p == nil {
		return "", false
	}
	t.exchanges++
	k := key{role: e.Role, errorType: e.ErrorType}
	if e.Role == l7.RoleClient && e.HTTP != nil {
		t.server(&k, p, whom, e)
	}
	switch {
	case e.GRPC != nil:
		p.call(&k, whom, e, &t.unnamed)
	case e.HTTP != nil:
		p.request(&k, whom, e, &t.unnamed)
	default:
		p.lookup(&k, e.DNS, &t.unnamed)
	}
	t.find(p, k).add(e)
	return k.route, true
}

// server completes the key of a client's request with whom it asked: the host that it names, else where its connection leads to.
func (t *Totals) server(k *key, p *process, whom Whom, e *l7.Exchange) {
	if n := len(e.HTTP.Host); n > 0 && n <= longestHost && !t.redact.header("Host") {
		asked, known := p.hosts[string(e.HTTP.Host)]
		switch {
		case known:
		case len(p.hosts) >= maxHosts:
			t.unnamed.Hosts++
		default:
			name := string(e.HTTP.Host)
			host, port := splitHost(name)
			asked = endpoint{host, uint16(port)}
			p.hosts[name] = asked
		}
		if k.asked = asked; asked.host != "" && asked.port == 0 {
			k.asked.port = whom.Peer.Port()
		}
	}
	if k.asked.host == "" && whom.Peer.Port() != 0 {
		k.asked, k.server = endpoint{}, whom.Peer
	}
}

// request completes the key of a request of HTTP.
func (p *process) request(k *key, whom Whom, e *l7.Exchange, unnamed *Unnamed) {
	k.tls, k.method, k.version, k.status = whom.TLS, e.HTTP.Method, e.HTTP.Version, e.HTTP.Status
	if k.method == "" {
		k.method = l7.UnknownText // its request was not seen
	}
	if !e.Request.Known {
		return
	}
	if k.route = p.routes.Of(e.HTTP.Path, isFound(k.status)); k.route == route.Other {
		unnamed.Routes++
	}
}

// isFound tells whether a status says that there is something at a path: servers answer
// with redirections and refusals (301, 400, 401, 403, 405) whatever it is.
func isFound(status int) bool {
	return status/100 == 2 || status/100 == 5 || status == http.StatusSwitchingProtocols || status == http.StatusNotModified
}

// call completes the key of a call by gRPC.
func (p *process) call(k *key, whom Whom, e *l7.Exchange, unnamed *Unnamed) {
	k.kind, k.tls, k.code = call, whom.TLS, e.GRPC.Status
	known, ok := p.methods.of(methodOf(e))
	if !ok {
		known = l7.OtherMethod
		unnamed.Methods++
	}
	k.name = known
}

// methodOf is the full name of a call's method, [l7.UnknownText] where that is not known.
func methodOf(e *l7.Exchange) []byte {
	if string(e.GRPC.Service) == l7.UnknownText {
		return e.GRPC.Service
	}
	return bytes.TrimPrefix(e.HTTP.Path, []byte("/"))
}

// lookup completes the key of a lookup.
func (p *process) lookup(k *key, d *l7.DNS, unnamed *Unnamed) {
	known, ok := p.names.of(nameOf(d))
	if !ok {
		unnamed.Names++
		*k = key{kind: lookup, role: k.role, overflow: true}
		return
	}
	k.kind, k.name = lookup, known
}

// add counts an exchange.
func (s *series) add(e *l7.Exchange) {
	s.idle = 0
	if took, ok := Duration(e); ok {
		s.duration.add(durationBounds, float64(took)/1e9)
	}
	if e.HTTP == nil || e.GRPC != nil {
		return
	}
	for i, size := range sizes(e) {
		if size != l7.Unknown {
			s.sizes[i].add(sizeBounds, float64(size))
		}
	}
}

// Duration is how long an exchange took, in ns, until the last byte of its response.
// It is known where that was seen, and where the connection ended within the response:
// nothing came after its last byte then. Where bytes of it are missing the end is later
// than what was seen, and nobody knows by how much.
func Duration(e *l7.Exchange) (ns int64, ok bool) {
	took, ok := e.Duration()
	if !ok && e.Outcome == l7.Aborted && e.Request.Known && e.Response.Known {
		took, ok = e.Response.Last-e.Request.First, true
	}
	return max(took, 0), ok
}

// process returns what a subject that has just been seen counts for, nil where it is out
// of scope. The caller holds the lock.
func (t *Totals) process(of observe.SubjectKey) *process {
	s := t.subjects[of]
	if s == nil {
		s = &subject{process: newProcess()}
		t.subjects[of] = s
	}
	s.idle = 0
	return s.process
}

// find returns the series of a process with a key. The caller holds the lock.
func (t *Totals) find(p *process, k key) *series {
	if p.newest != nil && p.newestKey == k {
		return p.newest
	}
	if s := p.series[k]; s != nil {
		p.newest, p.newestKey = s, k
		return s
	}
	if t.series >= maxSeries || len(p.series) >= maxOfProcess {
		t.overflown++
		p.unkept = true
		k = key{kind: k.kind, role: k.role, overflow: true}
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
// that is out of scope. What such a process did is forgotten.
func (t *Totals) Name(who func(observe.SubjectKey) *model.Process) {
	t.mu.Lock()
	var unknown []observe.SubjectKey
	for key, s := range t.subjects {
		if !s.asked {
			unknown = append(unknown, key)
		}
	}
	t.mu.Unlock()
	for _, key := range unknown {
		known := who(key)
		t.mu.Lock()
		t.name(t.subjects[key], known)
		t.mu.Unlock()
	}
}

// name says whose a subject's requests are: where the same is told of another one they
// are told as one. The caller holds the lock.
func (t *Totals) name(s *subject, known *model.Process) {
	s.asked = true
	if known == nil {
		t.leave(s)
		return
	}
	resource := model.ResourceOf(known)
	told := t.told[resource]
	if told == nil {
		s.known = known
		t.told[resource] = s.process
		return
	}
	for k, its := range s.series {
		if same := told.series[k]; same != nil {
			same.merge(its)
			t.series--
		} else {
			told.series[k] = its
		}
	}
	told.subjects++
	s.process = told
}

// merge adds what another series with the same key has counted.
func (s *series) merge(o *series) {
	if o.start.Before(s.start) {
		s.start = o.start
	}
	s.idle = min(s.idle, o.idle)
	s.duration.merge(&o.duration)
	for i := range s.sizes {
		s.sizes[i].merge(&o.sizes[i])
	}
}

// Process is whose requests a subject's are, nil where it is out of scope or not asked
// about yet.
func (t *Totals) Process(of observe.SubjectKey) *model.Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.subjects[of]; s != nil && s.process != nil {
		return s.known
	}
	return nil
}

// leave takes a subject out of what its process did, which is forgotten with the last
// one. The caller holds the lock.
func (t *Totals) leave(s *subject) {
	p := s.process
	s.process = nil
	if p == nil {
		return
	}
	if p.subjects--; p.subjects > 0 {
		return
	}
	t.series -= len(p.series)
	if p.known != nil {
		delete(t.told, model.ResourceOf(p.known))
	}
}

// age drops the series that have not counted for long, and says how many they were; one
// that counts again begins anew. Routes, names, methods and hosts that no series has leave
// with them.
func (p *process) age() (dropped int) {
	for k, s := range p.series {
		if s.idle++; s.idle > idleReports {
			delete(p.series, k)
			dropped++
		}
	}
	if dropped > 0 {
		p.newest = nil
	}
	if dropped == 0 && !p.unkept {
		return 0
	}
	p.unkept = false
	routes, hosts, names := map[string]bool{}, map[string]bool{}, map[kind]map[string]bool{lookup: {}, call: {}}
	for k := range p.series {
		hosts[k.asked.host] = true
		if k.kind == httpRequest {
			routes[k.route] = true
		} else {
			names[k.kind][k.name] = true
		}
	}
	p.routes.Keep(func(route string) bool { return routes[route] })
	p.names.keep(names[lookup])
	p.methods.keep(names[call])
	maps.DeleteFunc(p.hosts, func(_ string, asked endpoint) bool { return !hosts[asked.host] })
	return dropped
}

// LeaveOut forgets processes that have left the scope, and processes and series that have
// been quiet for long; it is called for each report. stays tells whether a process is in scope still,
// and whether that is known: it may have ended otherwise.
func (t *Totals) LeaveOut(stays func(observe.SubjectKey) (stays, known bool, err error)) error {
	t.mu.Lock()
	subjects := make([]observe.SubjectKey, 0, len(t.subjects))
	for key, s := range t.subjects {
		if s.asked {
			subjects = append(subjects, key)
		}
	}
	t.mu.Unlock()
	for _, key := range subjects {
		stays, known, err := stays(key)
		if err != nil {
			return err
		}
		patience := idleReports
		if !known {
			patience = idleAfterEnd
		}
		t.mu.Lock()
		s := t.subjects[key]
		if s.idle++; !stays || s.process == nil || s.idle > patience {
			t.leave(s)
			delete(t.subjects, key)
		}
		t.mu.Unlock()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.told {
		t.series -= p.age()
	}
	return nil
}

// Metrics returns what was counted. Of a role other than only, unless it is
// [l7.RoleUnknown], nothing is told.
func (t *Totals) Metrics(at time.Time, only l7.Role) []*model.Metrics {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*model.Metrics, 0, len(t.told))
	for _, p := range t.told {
		if told := p.metrics(only); len(told) > 0 {
			list = append(list, &model.Metrics{Process: p.known, Time: at, Metrics: told})
		}
	}
	return list
}

// Unnamed is how many were told without their own route, name, method or host.
func (t *Totals) Unnamed() Unnamed {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unnamed
}

// Exchanges is how many were counted, Overflown how many of them found no series of
// their own.
func (t *Totals) Exchanges() (counted, overflown uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exchanges, t.overflown
}
