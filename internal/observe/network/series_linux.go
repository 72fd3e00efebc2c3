// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

const (
	// idleReports is how many reports tell a peer after its last socket was closed,
	// until nobody can find it any more; one more tells what came in meanwhile.
	idleReports = 1
	// idleFlows is the same of datagrams of sockets that are not connected: nobody
	// knows that more will not come.
	idleFlows = 29
)

// series is one of the kernel's.
type series struct {
	id      uint32
	key     key
	process *model.Process // nil: of nobody
	owner   *owner
	flow    *flow // nil until it is told first
	other   otherEnd
	started time.Time
	counted totals
	// before is what other flows have of what it has counted; nil: nothing.
	before  *totals
	idle    int  // reports since its last socket was closed and it counted last
	leaving bool // its place is free after the next report
}

// subject is whose it is.
func (s *series) subject() observe.SubjectKey {
	return observe.SubjectKey{PID: s.key.Pid, StartBoottime: s.key.StartBoottime, ExecID: s.key.ExecId}
}

// nobodys tells whether it is of a process that is out of scope.
func (s *series) nobodys() bool { return s.process == nil && s.id != hostSeries }

// owner is a resource with its flows: a process, whichever of the programs that it has
// run one after the other, unless they differ in what is told of them.
type owner struct {
	resource model.Resource
	process  *model.Process
	flows    map[peer]*flow
}

// table is the kernel's series and what became of them.
type table struct {
	host   observe.Host
	scopes *ebpf.Map // of process.bpf.c: what was decided about processes
	// scopeBit is that of this observation in what was decided.
	scopeBit uint32
	places   shared[place]
	records  shared[record]
	shards   uint32
	ids      *ebpf.Map
	free     *ebpf.Map // those of nobody are pushed here
	spare    *ebpf.Map
	counts   *ebpf.Map

	live    map[uint32]*series
	owners  map[model.Resource]*owner
	carried carried
	// dropped is what was dropped of no socket.
	dropped *series
	// strangers have no flow yet.
	strangers []*series
	ends      ends
	runs      func(observe.SubjectKey) bool // tells whether a process has not ended
	lastRead  time.Time
	// operations were counted since the start.
	operations atomic.Uint64
	// held is the memory of what is known of series.
	held atomic.Uint64
}

// seriesBytes is what a series takes here, with its flow, beside its histograms.
const seriesBytes = 3 << 9

// open maps the tables of a loaded object, all places of which are free.
func (t *table) open(coll *ebpf.Collection, p plan, scopes *ebpf.Map, host observe.Host) (err error) {
	t.host, t.scopes, t.shards = host, scopes, p.shards
	t.ids, t.counts = coll.Maps[bindings.NetworkMapNetworkIds], coll.Maps[bindings.NetworkMapNetworkCounts]
	t.free, t.spare = coll.Maps[bindings.NetworkMapNetworkFree], coll.Maps[bindings.NetworkMapNetworkSpare]
	t.ends = ends{
		known: coll.Maps[bindings.NetworkMapNetworkEnds], listeners: coll.Maps[bindings.NetworkMapNetworkListeners],
		receivers: coll.Maps[bindings.NetworkMapNetworkReceivers],
	}
	if err := coll.Variables[bindings.NetworkVarScopeBit].Get(&t.scopeBit); err != nil {
		return fmt.Errorf("reading which bit of scopes is observed: %w", err)
	}
	t.live, t.owners = map[uint32]*series{}, map[model.Resource]*owner{}
	t.carried = make(carried, p.series)
	if t.places, err = share[place](coll.Maps[bindings.NetworkMapNetworkPlaces]); err != nil {
		return err
	}
	if t.records, err = share[record](coll.Maps[bindings.NetworkMapNetworkRecords]); err != nil {
		return err
	}
	t.addHost()
	return t.fillQueues()
}

// addHost makes the series that is nobody's: what found no place in any other, and, as
// a flow of its own, packets without a socket that were dropped.
func (t *table) addHost() {
	o := &owner{flows: map[peer]*flow{}}
	for _, who := range []peer{{}, {overflow: true}} {
		f := newFlow(who, time.Now())
		f.members = []*series{{id: hostSeries, owner: o, flow: f}}
		o.flows[who] = f
	}
	t.owners[o.resource] = o
	t.dropped, t.live[hostSeries] = o.flows[peer{}].members[0], o.flows[peer{overflow: true}].members[0]
}

// hostSeries is the place of what is nobody's.
const hostSeries = 0

func (t *table) close() error {
	return errors.Join(t.places.close(), t.records.close(), t.ends.close())
}

// fillQueues says which places are free: all but that of nobody.
func (t *table) fillQueues() error {
	all := uint32(len(t.places.items))
	for id := uint32(1); id < all; id++ {
		if err := t.queueOf(id).Update(nil, id, ebpf.UpdateAny); err != nil {
			return fmt.Errorf("offering a place for series: %w", err)
		}
	}
	return nil
}

func (t *table) queueOf(id uint32) *ebpf.Map {
	if id%spare == 0 {
		return t.spare
	}
	return t.free
}

// discover finds series that have begun since, while their processes are known.
func (t *table) discover() error {
	_, started, err := kernel.Monotonic()
	if err != nil {
		return err
	}
	for id := range t.places.items {
		at := &t.places.items[id]
		if at.Created == 0 || t.live[uint32(id)] != nil {
			continue
		}
		begun := series{id: uint32(id), key: at.Key}
		var known uint32
		switch err := t.ids.Lookup(&begun.key, &known); {
		case errors.Is(err, ebpf.ErrKeyNotExist) || err == nil && known != begun.id:
			continue // it is being written, or was not needed
		case err != nil:
			return fmt.Errorf("reading the kernel's series: %w", err)
		}
		subject, _ := t.host.Subject(begun.subject(), "")
		t.live[begun.id] = &begun
		if subject == nil {
			continue // out of scope
		}
		begun.process = subject.Process()
		begun.started = started(int64(at.Created))
		t.strangers = append(t.strangers, &begun)
	}
	return nil
}

// join gives the series that have begun their flows. It is called when they are told
// first: by then the other ends have been noted, too.
func (t *table) join() error {
	var questions []question
	for _, s := range t.strangers {
		s.other.begin(&s.key)
		questions = append(questions, s.questions(&t.places.items[s.id])...)
	}
	if err := t.ask(questions); err != nil {
		return err
	}
	hear(questions, t.runs)
	for _, s := range t.strangers {
		s.other.changed = false // nothing was told before
		name := model.ResourceOf(s.process)
		o, ok := t.owners[name]
		if !ok {
			o = &owner{resource: name, process: s.process, flows: map[peer]*flow{}}
			t.owners[name] = o
		}
		s.owner = o
		s.enter(t.told(s), s.started)
	}
	t.strangers = nil
	return nil
}

// told is the peer that the attributes of a series name, and what is spoken with it.
func (t *table) told(s *series) peer {
	at := &t.places.items[s.id]
	who := s.other.told()
	if !who.overflow {
		who.protocol, who.tls = t.carried.name(s.id, at.Generation), at.Tls != 0
	}
	return who
}

// enter makes the series a member of its owner's flow with a peer, which may begin now.
func (s *series) enter(who peer, start time.Time) {
	f, ok := s.owner.flows[who]
	if !ok {
		f = newFlow(who, start)
		s.owner.flows[who] = f
	}
	f.members = append(f.members, s)
	s.flow = f
}

// move has what the series counts from now on told of another peer.
func (s *series) move(who peer, now time.Time) {
	s.flow.leave(s)
	s.flow.rests = idleReports
	s.before = s.counted.copy()
	s.enter(who, now)
}

// read takes what was counted until now.
func (t *table) read() error {
	counts, err := t.readCounts()
	if err != nil {
		return err
	}
	for _, o := range t.owners {
		for _, f := range o.flows {
			f.open = [states]int{}
		}
	}
	held := uint64(0)
	for id, s := range t.live {
		var recorded record
		for shard := range t.shards {
			addRecord(&recorded, &t.records.items[id*t.shards+shard])
		}
		few := counts[id]
		if id == hostSeries {
			t.dropped.counted, few = few, totals{}
		}
		unchanged := s.counted.same(&recorded) && maps.Equal(s.counted.drops, few.drops) && maps.Equal(s.counted.failures, few.failures)
		open := 0
		for _, n := range t.places.items[id].Open {
			open += int(n)
		}
		switch {
		case s.nobodys():
			s.idle = idleFlows
		case open > 0 || !unchanged:
			s.idle = 0
		default:
			s.idle++
		}
		if s.flow != nil && id != hostSeries && !unchanged {
			if who := t.told(s); who != s.flow.peer {
				s.move(who, t.lastRead)
			}
		}
		before := s.counted.calls()
		s.counted.take(&recorded)
		s.counted.drops, s.counted.failures = few.drops, few.failures
		t.operations.Add(s.counted.calls() - before)
		if s.flow != nil {
			s.count(&t.places.items[id])
		}
		held += seriesBytes + s.counted.bytes()
		if s.before != nil {
			held += uint64(unsafe.Sizeof(*s.before)) + s.before.bytes()
		}
	}
	t.lastRead = time.Now()
	t.held.Store(held)
	return nil
}

// count adds the sockets that are open to those of the flow.
func (s *series) count(at *place) {
	for state, n := range at.Open {
		s.flow.open[state] += int(n)
	}
}

// readCounts reads what is counted for few series.
func (t *table) readCounts() (map[uint32]totals, error) {
	all := map[uint32]totals{}
	var at bindings.NetworkNetworkCountKey
	var n uint64
	entries := t.counts.Iterate()
	for entries.Next(&at, &n) {
		counted := all[at.Series]
		one := map[uint16]uint64{at.Code: n}
		switch bindings.NetworkNetworkCountKind(at.Kind) {
		case bindings.NetworkNetworkCountKindNETWORK_DROPS:
			counted.drops = addCounts(counted.drops, one)
		case bindings.NetworkNetworkCountKindNETWORK_FAILURES:
			counted.failures = addCounts(counted.failures, one)
		}
		all[at.Series] = counted
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return nil, fmt.Errorf("reading the kernel's counts of drops: %w", err)
	}
	return all, nil
}

// clearCounts makes room for what the next series in the place counts.
func (t *table) clearCounts(s *series) error {
	for kind, counts := range map[bindings.NetworkNetworkCountKind]map[uint16]uint64{
		bindings.NetworkNetworkCountKindNETWORK_DROPS:    s.counted.drops,
		bindings.NetworkNetworkCountKindNETWORK_FAILURES: s.counted.failures,
	} {
		for code := range counts {
			key := bindings.NetworkNetworkCountKey{Series: s.id, Kind: uint16(kind), Code: code}
			if err := t.counts.Delete(&key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("clearing the kernel's counts of drops: %w", err)
			}
		}
	}
	return nil
}

// takeBack lets peers leave that were told often enough since they were closed. A
// place is free one report after nobody can find it any more; what was counted until
// then has been told.
func (t *table) takeBack() error {
	for id, s := range t.live {
		at := &t.places.items[id]
		switch {
		case id == hostSeries:
		case s.leaving:
			t.leave(s)
			delete(t.live, id)
			if err := t.clearCounts(s); err != nil {
				return err
			}
			clear(t.records.items[id*t.shards : (id+1)*t.shards])
			at.Created, at.Newest, at.Tls, at.Samples = 0, 0, 0, [samples]tuple{}
			if err := t.queueOf(id).Update(nil, id, ebpf.UpdateAny); err != nil {
				return fmt.Errorf("taking back a place for series: %w", err)
			}
		case s.idle >= s.patience():
			if err := t.ids.Delete(&s.key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("taking back a series: %w", err)
			}
			at.Generation++
			s.leaving = true
		}
	}
	t.endRests()
	return nil
}

// endRests takes out the flows that their series have left for others, some reports later.
func (t *table) endRests() {
	for _, o := range t.owners {
		for _, f := range o.flows {
			if f.rests--; len(f.members) == 0 && f.rests < 0 {
				t.end(o, f)
			}
		}
	}
}

// end takes out a flow without members.
func (t *table) end(o *owner, f *flow) {
	delete(o.flows, f.peer)
	if len(o.flows) == 0 {
		delete(t.owners, o.resource)
	}
}

// patience is how many reports a series stays without a socket.
func (s *series) patience() int {
	if bindings.NetworkNetworkTransport(s.key.Transport) == bindings.NetworkNetworkTransportNETWORK_UDP {
		return idleFlows
	}
	return idleReports
}

// leave takes a series out of its flow, which keeps what it has counted.
func (t *table) leave(s *series) {
	if s.flow == nil {
		return
	}
	s.flow.leave(s)
	if len(s.flow.members) == 0 {
		t.end(s.owner, s.flow)
	}
}

// metrics returns what is told of each process; only leaves out the other role.
func (t *table) metrics(at time.Time, reasons dropReasons, only Role) []*model.Metrics {
	list := make([]*model.Metrics, 0, len(t.owners))
	for _, o := range t.owners {
		b := builder{reasons: reasons, points: map[*model.Descriptor][]model.Point{}}
		for _, f := range o.flows {
			if only == NoRole || f.role == NoRole || f.role == only {
				b.flow(f, f.total())
			}
		}
		if told := b.metrics(); len(told) > 0 {
			list = append(list, &model.Metrics{Process: o.process, Time: at, Metrics: told})
		}
	}
	return list
}
