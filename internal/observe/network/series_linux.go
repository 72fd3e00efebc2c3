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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

const (
	// idleReports is the number of reports that include a peer after its last socket was closed, until no program can find its series any
	// more; one more report has what was counted meanwhile.
	idleReports = 1
	// idleFlows is idleReports for datagrams of sockets that are not connected: it is unknown whether more will come.
	idleFlows = 29
)

// series is one of the kernel's series.
type series struct {
	id      uint32
	key     key
	process *model.Process // nil: no process
	owner   *owner
	flow    *flow // nil until it is first reported
	other   otherEnd
	started time.Time
	counted totals
	// before is the part of its counts that belongs to other flows; nil: none.
	before  *totals
	idle    int  // reports since its last socket was closed and it counted last
	leaving bool // its slot is free after the next report
}

// subject returns the process that the series belongs to.
func (s *series) subject() observe.SubjectKey {
	return observe.SubjectKey{PID: s.key.Pid, StartBoottime: s.key.StartBoottime, ExecID: s.key.ExecId}
}

// outOfScope reports whether the series belongs to a process that is out of scope.
func (s *series) outOfScope() bool { return s.process == nil && s.id != hostSeries }

// owner is a resource with its flows: a service instance, or a process. A process includes all programs that it executed one after the other,
// unless they differ in what is reported of them.
type owner struct {
	resource model.Resource
	process  *model.Process // or what all processes of the instance have in common
	flows    map[peer]*flow
}

// table is the kernel's series with their state here.
type table struct {
	host   observe.Host
	scopes *ebpf.Map // of process.bpf.c: the decisions about processes
	// scopeBit is the bit of this observation in the decisions.
	scopeBit uint32
	slots    shared[slot]
	records  shared[record]
	shards   uint32
	ids      *ebpf.Map
	free     *ebpf.Map // those of processes out of scope are pushed here
	spare    *ebpf.Map
	counts   *ebpf.Map

	// byInstance makes owners service instances.
	byInstance bool
	// exponential: the kernel's buckets are between powers of two.
	exponential bool
	kept        kept
	// detail is the detail in which peers are reported.
	detail requests.PeerDetail

	shares   shares
	live     map[uint32]*series
	owners   map[model.Resource]*owner
	carried  carried
	reported reportedPeers
	// dropped counts drops of packets without a socket.
	dropped *series
	// unjoined have no flow yet.
	unjoined []*series
	ends     ends
	runs     func(observe.SubjectKey) bool // reports whether a process has not exited
	lastRead time.Time
	// operations is the number of operations counted since the start.
	operations atomic.Uint64
	// held is the memory of series here.
	held atomic.Uint64
}

// seriesBytes is the memory of a series here, with its flow, without its histograms.
const seriesBytes = 3 << 9

// open maps the tables of a loaded object, all slots of which are free.
func (t *table) open(coll *ebpf.Collection, p plan, scopes *ebpf.Map, host observe.Host) (err error) {
	t.host, t.scopes, t.shards = host, scopes, p.shards
	t.ids, t.counts = coll.Maps[bindings.NetworkMapNetworkIds], coll.Maps[bindings.NetworkMapNetworkCounts]
	t.free, t.spare = coll.Maps[bindings.NetworkMapNetworkFreeSlots], coll.Maps[bindings.NetworkMapNetworkOverflowSlots]
	t.shares = openShares(coll)
	t.ends = ends{
		known: coll.Maps[bindings.NetworkMapNetworkEnds], listeners: coll.Maps[bindings.NetworkMapNetworkListeners],
		receivers: coll.Maps[bindings.NetworkMapNetworkReceivers],
	}
	if err := coll.Variables[bindings.NetworkVarScopeBit].Get(&t.scopeBit); err != nil {
		return fmt.Errorf("reading the scope bit of the network observation: %w", err)
	}
	t.live, t.owners = map[uint32]*series{}, map[model.Resource]*owner{}
	t.carried, t.reported, t.kept.most = make(carried, p.series), make(reportedPeers, p.series), int(p.series/keptShare)
	if t.slots, err = share[slot](coll.Maps[bindings.NetworkMapNetworkSlots]); err != nil {
		return err
	}
	if t.records, err = share[record](coll.Maps[bindings.NetworkMapNetworkRecords]); err != nil {
		return err
	}
	t.addHost()
	return t.fillQueues()
}

// addHost adds the series of the host, which belongs to no process: it counts what did not fit in any other series and, as a flow of its own,
// dropped packets without a socket.
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

// hostSeries is the slot of the series of no process.
const hostSeries = 0

func (t *table) close() error {
	return errors.Join(t.slots.close(), t.records.close(), t.ends.close())
}

// fillQueues makes all slots available except that of the host.
func (t *table) fillQueues() error {
	all := uint32(len(t.slots.items))
	for id := uint32(1); id < all; id++ {
		if err := t.queueOf(id).Update(nil, id, ebpf.UpdateAny); err != nil {
			return fmt.Errorf("adding a slot for series: %w", err)
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

// discover finds series that have begun since the last call, while their processes are known.
func (t *table) discover() error {
	_, started, err := kernel.Monotonic()
	if err != nil {
		return err
	}
	for id := range t.slots.items {
		at := &t.slots.items[id]
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
		t.unjoined = append(t.unjoined, &begun)
	}
	return nil
}

// join adds the series that have begun to their flows. It is called when they are first reported: by then the remote ends have been noted,
// too.
func (t *table) join() error {
	var questions []question
	for _, s := range t.unjoined {
		s.other.begin(&s.key)
		questions = append(questions, s.questions(&t.slots.items[s.id])...)
	}
	if err := t.ask(questions); err != nil {
		return err
	}
	updatePeers(questions, t.runs)
	for _, s := range t.unjoined {
		s.other.changed = false // nothing was reported before
		s.owner = t.ownerOf(s.process)
		s.enter(t.admit(s, t.reportedPeer(s)), s.started)
	}
	t.unjoined = nil
	return nil
}

// ownerOf returns the owner of the series of a process.
func (t *table) ownerOf(p *model.Process) *owner {
	if t.byInstance {
		p = p.Instance()
	}
	name := model.ResourceOf(p)
	o, ok := t.owners[name]
	if !ok {
		o = &owner{resource: name, process: p, flows: map[peer]*flow{}}
		t.owners[name] = o
	}
	return o
}

// reportedPeer returns the peer and the protocol for the attributes of a series.
func (t *table) reportedPeer(s *series) peer {
	at := &t.slots.items[s.id]
	who := reduce(s.other.peerToReport(), t.detail)
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

// move makes the series count for another peer from now on.
func (s *series) move(who peer, now time.Time) {
	s.flow.leave(s)
	s.before = s.counted.copy()
	s.enter(who, now)
}

// read reads the counts of all series.
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
		for _, n := range t.slots.items[id].Open {
			open += int(n)
		}
		switch {
		case s.outOfScope():
			s.idle = idleFlows
		case open > 0 || !unchanged:
			s.idle = 0
		default:
			s.idle++
		}
		if s.flow != nil && id != hostSeries && !unchanged {
			if who := t.admit(s, t.reportedPeer(s)); who != s.flow.peer {
				t.rest(s.flow)
				s.move(who, t.lastRead)
			}
		}
		before := s.counted.calls()
		s.counted.take(&recorded)
		s.counted.drops, s.counted.failures = few.drops, few.failures
		t.operations.Add(s.counted.calls() - before)
		if s.flow != nil {
			s.count(&t.slots.items[id])
		}
		held += seriesBytes + s.counted.bytes()
		if s.before != nil {
			held += uint64(unsafe.Sizeof(*s.before)) + s.before.bytes()
		}
	}
	t.lastRead = time.Now()
	t.held.Store(held + t.keptBytes())
	return nil
}

// count adds the number of open sockets of the series to that of the flow.
func (s *series) count(at *slot) {
	for state, n := range at.Open {
		s.flow.open[state] += int(n)
	}
}

// readCounts reads the counts that few series have.
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

// clearCounts deletes these counts, so that the slot can be reused.
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

// takeBack removes peers that were reported often enough since they were closed. A slot is free one report after no program can find it any
// more; what was counted until then has been exported.
func (t *table) takeBack() error {
	for id, s := range t.live {
		at := &t.slots.items[id]
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
				return fmt.Errorf("freeing a slot for series: %w", err)
			}
		case s.idle >= s.patience():
			if err := t.release(s); err != nil {
				return err
			}
		}
	}
	t.endRests()
	return nil
}

// end removes a flow without members.
func (t *table) end(o *owner, f *flow) {
	delete(o.flows, f.peer)
	if len(o.flows) == 0 {
		delete(t.owners, o.resource)
	}
}

// patience returns the number of reports for which a series stays without a socket.
func (s *series) patience() int {
	if bindings.NetworkNetworkTransport(s.key.Transport) == bindings.NetworkNetworkTransportNETWORK_UDP {
		return idleFlows
	}
	return idleReports
}

// leave removes a series from its flow, which keeps its counts.
func (t *table) leave(s *series) {
	if s.flow == nil {
		return
	}
	s.flow.leave(s)
	switch {
	case len(s.flow.members) > 0:
	case t.byInstance:
		t.rest(s.flow)
	default:
		t.end(s.owner, s.flow)
	}
}

// metrics returns the metrics of each process; only leaves out the other role.
func (t *table) metrics(at time.Time, reasons dropReasons, only Role) []*model.Metrics {
	list := make([]*model.Metrics, 0, len(t.owners))
	for _, o := range t.owners {
		b := builder{reasons: reasons, exponential: t.exponential, points: map[*model.Descriptor][]model.Point{}}
		for _, f := range o.flows {
			if only == NoRole || f.role == NoRole || f.role == only {
				b.flow(f, f.total())
			}
		}
		if metrics := b.metrics(); len(metrics) > 0 {
			list = append(list, &model.Metrics{Process: o.process, Time: at, Metrics: metrics})
		}
	}
	return list
}
