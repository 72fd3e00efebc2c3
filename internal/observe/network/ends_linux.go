// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/conntrack"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

type tuple = bindings.NetworkNetworkTuple

// ends resolves the remote ends of connections: a process on this host, or the owner of a translated address.
type ends struct {
	known, listeners, receivers *ebpf.Map

	nat *conntrack.Resolver // nil if addresses are not translated
}

// ask resolves the remote ends of connections. Clients come first: what is found of their translated connections also resolves their servers'
// peers.
func (t *table) ask(questions []question) error {
	for _, clients := range []bool{true, false} {
		var open []*question
		for i := range questions {
			q := &questions[i]
			if (Role(q.series.key.Role) == Client) != clients {
				continue
			}
			q.answer.peer = peerOf(&q.series.key)
			if err := t.ends.find(&q.answer, &q.series.key, &q.sample); err != nil {
				return err
			}
			if q.answer.process == nil {
				open = append(open, q)
			}
		}
		if err := t.translate(open); err != nil {
			return err
		}
	}
	for i := range questions {
		t.name(&questions[i].answer)
	}
	return nil
}

// name sets the service of the process at the remote end, if it is in scope.
func (t *table) name(a *answer) {
	if a.process == nil {
		return
	}
	a.local = true
	if subject, _ := t.host.Subject(*a.process, ""); subject != nil {
		a.pid, a.service = a.process.PID, subject.Process().ServiceName
	}
}

// close frees the resources of connection tracking.
func (e *ends) close() error {
	if e.nat == nil {
		return nil
	}
	return e.nat.Close()
}

// question is one of the connections of a series, with the answer of its remote end.
type question struct {
	series *series
	sample tuple
	answer answer
}

// flow returns the connection for a query to connection tracking; false if that does not track such connections.
func (q *question) flow() (conntrack.Flow, bool) {
	protocols := map[uint8]uint8{
		uint8(bindings.NetworkNetworkTransportNETWORK_TCP): conntrack.TCP,
		uint8(bindings.NetworkNetworkTransportNETWORK_UDP): conntrack.UDP,
	}
	local, remote := addressOf(q.sample.Family, q.sample.Local), addressOf(q.sample.Family, q.sample.Remote)
	protocol, ok := protocols[q.sample.Transport]
	if !ok || q.sample.LocalPort == 0 || q.sample.RemotePort == 0 || local.IsUnspecified() {
		return conntrack.Flow{}, false
	}
	return conntrack.Flow{
		Protocol: protocol,
		Local:    netip.AddrPortFrom(local, q.sample.LocalPort), Remote: netip.AddrPortFrom(remote, q.sample.RemotePort),
	}, true
}

// translate queries connection tracking for translated addresses, once for each network namespace, and finds the processes there.
func (t *table) translate(open []*question) error {
	if t.ends.nat == nil {
		return nil
	}
	asked := map[uint32][]*question{}
	for _, q := range open {
		if _, ok := q.flow(); ok {
			asked[q.sample.Netns] = append(asked[q.sample.Netns], q)
		}
	}
	for namespace, questions := range asked {
		flows := make([]conntrack.Flow, len(questions))
		for i := range questions {
			flows[i], _ = questions[i].flow() // true above
		}
		slot := conntrack.Place{Namespace: uint64(namespace), PIDs: t.processesIn(namespace)}
		for i, theirs := range t.ends.nat.OtherSides(slot, flows) {
			if theirs == flows[i].Reversed() {
				continue
			}
			if err := t.ends.translated(questions[i], theirs); err != nil {
				return err
			}
		}
	}
	return nil
}

// processesIn returns the processes that have sockets in a network namespace.
func (t *table) processesIn(namespace uint32) []uint32 {
	var pids []uint32
	for _, s := range t.live {
		if s.key.Netns == namespace && s.key.Pid != 0 {
			pids = append(pids, s.key.Pid)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// find finds the process at the remote end if no address is translated: none if it is not on this host, as far as is known.
func (e *ends) find(a *answer, k *key, sample *tuple) (err error) {
	if k.PeerPid != 0 {
		a.process = &observe.SubjectKey{PID: k.PeerPid, StartBoottime: k.PeerStart, ExecID: k.PeerExecId}
		return nil
	}
	if sample.RemotePort == 0 {
		return nil
	}
	name := named(*sample)
	if a.process, err = processAt(e.known, &name); a.process != nil || err != nil || Role(k.Role) != Client {
		return err
	}
	a.process, err = e.listener(sample)
	a.listens = a.process != nil
	return err
}

// listener returns the process that listens where a connection of a client leads to, or nil.
func (e *ends) listener(sample *tuple) (*observe.SubjectKey, error) {
	at := tuple{Local: sample.Remote, Netns: sample.Netns, LocalPort: sample.RemotePort, Transport: sample.Transport}
	process, err := e.listening(&at)
	if process == nil && err == nil && addressOf(sample.Family, sample.Remote).IsLoopback() {
		at.Local = [4]uint32{} // else one that listens on all addresses need not have this one
		process, err = e.listening(&at)
	}
	return process, err
}

// listening returns the process that listens on an end, or receives datagrams there, or nil.
func (e *ends) listening(name *tuple) (*observe.SubjectKey, error) {
	if bindings.NetworkNetworkTransport(name.Transport) == bindings.NetworkNetworkTransportNETWORK_UDP {
		return processAt(e.receivers, name)
	}
	var known bindings.NetworkNetworkListener
	found, err := lookUp(e.listeners, name, &known)
	if !found {
		return nil, err
	}
	return subjectOf(&known.Who), nil
}

// processAt returns the process that a map has for an end, or nil.
func processAt(m *ebpf.Map, name *tuple) (*observe.SubjectKey, error) {
	var who bindings.NetworkNetworkProcess
	found, err := lookUp(m, name, &who)
	if !found {
		return nil, err
	}
	return subjectOf(&who), nil
}

// translated takes the connection as connection tracking has it, which is that of the remote end, and finds the process there.
func (e *ends) translated(q *question, theirs conntrack.Flow) error {
	q.answer.address = theirs.Local.Addr()
	if q.answer.port > 0 {
		q.answer.port = theirs.Local.Port()
	}
	// The remote end does not know of the translation, and finds this series by its own name of the connection.
	k := &q.series.key
	we := bindings.NetworkNetworkProcess{StartBoottime: k.StartBoottime, Pid: k.Pid, ExecId: k.ExecId}
	name := named(tupleOf(theirs, &q.sample))
	if err := e.known.Put(&name, &we); err != nil {
		return fmt.Errorf("noting the translation of an address: %w", err)
	}
	seen := tupleOf(theirs.Reversed(), &q.sample)
	return e.find(&q.answer, &key{Role: k.Role}, &seen)
}

// named returns the key by which one end of a connection, given as that end has it, finds the other: within one namespace only on its
// loopback device.
func named(t tuple) tuple {
	if !addressOf(t.Family, t.Remote).IsLoopback() {
		t.Netns = 0
	}
	return t
}

// tupleOf converts a flow to the format of the BPF programs, in the namespace of another tuple.
func tupleOf(f conntrack.Flow, like *tuple) tuple {
	return tuple{
		Netns: like.Netns,
		Local: words(f.Local.Addr()), Remote: words(f.Remote.Addr()),
		LocalPort: f.Local.Port(), RemotePort: f.Remote.Port(), Family: like.Family, Transport: like.Transport, Sequence: like.Sequence,
	}
}

// words converts an address to the kernel's format.
func words(a netip.Addr) (to [4]uint32) {
	bytes := a.AsSlice()
	for i := 0; i+4 <= len(bytes); i += 4 {
		to[i/4] = binary.NativeEndian.Uint32(bytes[i:])
	}
	return to
}

// lookUp reads the entry of a map for a tuple; false if there is none.
func lookUp(m *ebpf.Map, name *tuple, value any) (bool, error) {
	err := m.Lookup(name, value)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking up the remote end of a connection: %w", err)
	}
	return true, nil
}

func subjectOf(who *bindings.NetworkNetworkProcess) *observe.SubjectKey {
	return &observe.SubjectKey{PID: who.Pid, StartBoottime: who.StartBoottime, ExecID: who.ExecId}
}
