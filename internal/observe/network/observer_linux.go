// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/conntrack"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	processes "github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

const (
	// drainInterval is how soon a series is noticed, while its process is known.
	drainInterval = time.Second
	// tellInterval is the same where each request is told by itself: what waits to be
	// delivered is bounded, and what is handed over at once must be a small part of that.
	tellInterval = 250 * time.Millisecond
)

// Observer is the running observation of the network.
type Observer struct {
	config   Config
	features features
	plan     plan
	coll     *ebpf.Collection
	attached []io.Closer
	less     error
	table    table
	reasons  dropReasons
	epoch    uint32
	round    uint32
	adopted  int
	skew     skew
	failed   error // what went wrong in the last report: the next Drain tells it
	stopped  bool
	// warnings tell why peers are not resolved, unresolved is how many they have told of.
	warnings   *warn.Rarely
	unresolved uint64

	capture *capture     // nil where requests are not looked at
	tls     *tlsAttacher // nil where nothing is attached to
	pages   requests.Pages
	losses  [bindings.NetworkNetworkLossNETWORK_LOSS_REASONS]atomic.Uint64
	hooks   atomic.Int64
	sockets atomic.Uint64
	// counted is when sockets were counted last, counting how long that took.
	counted  time.Time
	counting time.Duration
	threads  atomic.Uint64 // of the host: of so many something may be remembered
	// noted is how many ends of connections were noted until marked, and how many of them clients'.
	noted  struct{ ends, clients uint32 }
	marked time.Time
}

var (
	_ observe.Observation = (*Observer)(nil)
	_ observe.Narrator    = (*Observer)(nil)
	_ observe.Stopper     = (*Observer)(nil)
)

// Start loads the programs and observes from then on. shared are the maps of
// process.bpf.c.
func Start(config Config, loader *kernel.Loader, shared map[string]*ebpf.Map, host observe.Host) (*Observer, error) {
	has, err := featuresOf(loader)
	if err != nil {
		return nil, err
	}
	return start(config, has, loader, shared, host)
}

func start(config Config, has features, loader *kernel.Loader, shared map[string]*ebpf.Map, host observe.Host) (_ *Observer, err error) {
	spec, err := bindings.LoadNetwork()
	if err != nil {
		return nil, fmt.Errorf("reading the network programs: %w", err)
	}
	has.requests = config.Requests
	if config.OnlyAnswered {
		has = has.onlyAnswers()
	}
	o := &Observer{
		config: config, features: has, epoch: 1,
		plan:     newPlan(config, runtime.NumCPU()),
		warnings: warn.NewRarely(config.Logger, "Some peers are told by the addresses that their sockets have", nil),
	}
	values, err := loader.EnumValues("skb_drop_reason")
	if err != nil {
		return nil, err
	}
	o.reasons = newDropReasons(values)
	session, forTLS := false, []string(nil)
	if config.readsTLS() {
		if session, err = tlsSession(config, loader, spec); err != nil {
			return nil, err
		}
		forTLS = tlsPrograms(session)
	}
	has.trim(spec, forTLS)
	if err := o.plan.size(spec, has); err != nil {
		return nil, fmt.Errorf("preparing the network programs: %w", err)
	}
	if config.Paths != nil {
		shared = maps.Clone(shared)
		maps.Copy(shared, config.Paths.shared())
	}
	if o.coll, err = loader.Load("the network programs", spec, shared); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Close())
		}
	}()
	if err := o.table.open(o.coll, o.plan, shared[bindings.ProcessMapScope], host); err != nil {
		return nil, err
	}
	o.table.runs = func(who observe.SubjectKey) bool { return processes.Runs(config.ProcRoot, who.ID()) }
	if config.ResolveNAT {
		if o.table.ends.nat, err = conntrack.New(conntrack.Config{ProcRoot: config.ProcRoot}); err != nil {
			return nil, err
		}
	}
	if o.attached, o.less, err = has.attach(o.coll, config.SysRoot); err != nil {
		return nil, err
	}
	if config.readsTLS() {
		if o.tls, err = startTLS(config, session, o.coll); err != nil {
			return nil, err
		}
	}
	if config.Requests { // until now what programs tell waits in their buffer
		if o.capture, err = startCapture(config, o.coll, &o.table, o.tls); err != nil {
			return nil, err
		}
	}
	o.hooks.Store(int64(len(o.attached)))
	return o, errors.Join(o.measureSkew(), o.adopt())
}

// DrainInterval is how often Drain looks for what has begun.
func (o *Observer) DrainInterval() time.Duration {
	if o.capture != nil && o.config.Journal.Which == requests.AllRequests {
		return tellInterval
	}
	return drainInterval
}

// Drain finds out whose the series are that have begun.
func (o *Observer) Drain() error {
	o.epoch++
	failed := o.failed
	o.failed = nil
	if o.capture != nil {
		o.nameRequests()
		failed = errors.Join(failed, o.capture.ring.failure())
	}
	return errors.Join(failed, o.measureSkew(), o.countAgain(), o.markEnds(), o.coll.Variables[bindings.NetworkVarEpoch].Set(o.epoch), o.adopt(), o.table.discover(), o.readLosses(), o.countThreads())
}

// measureSkew tells the programs how the clocks differ.
func (o *Observer) measureSkew() error {
	value, ok, err := o.skew.measure()
	if !ok || err != nil {
		return err
	}
	return o.coll.Variables[bindings.NetworkVarClockSkew].Set(value)
}

func (o *Observer) readLosses() error {
	for reason := range o.losses {
		var perCPU []uint64
		if err := o.coll.Maps[bindings.NetworkMapNetworkLosses].Lookup(uint32(reason), &perCPU); err != nil {
			return fmt.Errorf("reading what the network programs have lost: %w", err)
		}
		var sum uint64
		for _, n := range perCPU {
			sum += n
		}
		o.losses[reason].Store(sum)
	}
	return nil
}

// Report returns what was counted of each process. Peers whose sockets are closed
// leave two reports later.
func (o *Observer) Report(until time.Time) model.Findings {
	o.failed = errors.Join(o.table.discover(), o.countSockets(), o.table.review(), o.table.join(), o.table.read())
	if o.failed == nil {
		o.failed = o.table.leaveOut()
	}
	found := model.Findings{Metrics: o.table.metrics(until, o.reasons, o.config.Only)}
	if o.failed == nil {
		o.failed = o.table.takeBack()
	}
	o.tellUnresolved()
	if o.capture != nil {
		top := o.capture.takeTop()
		o.nameRequests()
		found.Logs = o.tellTop(top, until)
		o.failed = errors.Join(o.failed, o.capture.totals.LeaveOut(o.table.staysQuiet))
		found.Metrics = append(found.Metrics, o.capture.totals.Metrics(until, requestRoles[o.config.Only])...)
	}
	return found
}

// requestRoles are what exchanges call the sides of a connection.
var requestRoles = map[Role]l7.Role{NoRole: l7.RoleUnknown, Client: l7.RoleClient, Server: l7.RoleServer}

// nameRequests finds out whose the requests are that were seen since, and whose the connections of which none were.
func (o *Observer) nameRequests() {
	process := func(subject observe.SubjectKey) *model.Process {
		if known, _ := o.table.host.Subject(subject, ""); known != nil {
			return known.Process()
		}
		return nil
	}
	o.capture.totals.Name(process)
	o.capture.opaque.name(func(subject observe.SubjectKey) bool { return process(subject) != nil })
}

// tellUnresolved warns why connection tracking could not be asked about peers.
func (o *Observer) tellUnresolved() {
	nat := o.table.ends.nat
	if nat == nil {
		return
	}
	if failed := nat.Stats().Failed; failed > o.unresolved {
		o.unresolved = failed
		o.warnings.Warn(nat.Degraded())
	}
}

// SetLevel does nothing: what is counted cannot be counted by halves.
func (o *Observer) SetLevel(int) error { return nil }

// CPUsChanged does nothing: no table belongs to a CPU alone.
func (o *Observer) CPUsChanged() error { return nil }

// Degraded says why the observation is less than it could be, or nil.
func (o *Observer) Degraded() error { return o.less }

// Attached is the number of hooks.
func (o *Observer) Attached() int {
	n := int(o.hooks.Load())
	if o.tls != nil {
		n += o.tls.Functions()
	}
	return n
}

// lossReasons are the names of enum network_loss.
var lossReasons = [...]struct {
	name string
	told bool
}{
	bindings.NetworkNetworkLossNETWORK_LOST_SERIES:    {"series_full", true},
	bindings.NetworkNetworkLossNETWORK_LOST_SOCKETS:   {"sockets_full", true},
	bindings.NetworkNetworkLossNETWORK_LOST_THREADS:   {"threads_full", true},
	bindings.NetworkNetworkLossNETWORK_LOST_COUNTS:    {"counts_full", false},
	bindings.NetworkNetworkLossNETWORK_LOST_PEERS:     {"peer_unknown", true},
	bindings.NetworkNetworkLossNETWORK_LOST_LISTENERS: {"listeners_full", true},
	bindings.NetworkNetworkLossNETWORK_LOST_PIECES:    {"buffer_full", false},
	bindings.NetworkNetworkLossNETWORK_LOST_TLS:       {"tls_unknown", false},
	bindings.NetworkNetworkLossNETWORK_LOST_ENDS:      {"ends_full", true},
	bindings.NetworkNetworkLossNETWORK_LOST_VALUES:    {"values_full", false},
	bindings.NetworkNetworkLossNETWORK_LOST_FRAMES:    {"frames_full", true},
}

// Losses counts what could not be counted, or not as what it was, since the start.
func (o *Observer) Losses() []observe.Loss {
	list := make([]observe.Loss, 0, len(lossReasons))
	for i, reason := range lossReasons {
		list = append(list, observe.Loss{
			Probe: string(observe.Network), Reason: reason.name, Count: o.losses[i].Load(), Told: reason.told,
		})
	}
	if o.capture != nil {
		list = append(list, o.capture.losses()...)
	}
	if o.tls != nil {
		list = append(list, observe.Loss{Probe: string(observe.Network), Reason: "tls_not_attached", Count: o.tls.Failed()})
	}
	if nat := o.table.ends.nat; nat != nil {
		stats := nat.Stats()
		list = append(list, observe.Loss{
			Probe: string(observe.Network), Reason: "nat_unresolved", Count: stats.Skipped + stats.Gone + stats.Failed, Told: true,
		})
	}
	return list
}

// Samples is the number of operations that were counted, as of the last report.
func (o *Observer) Samples() uint64 { return o.table.operations.Load() }

// Costs reads the kernel's run-time statistics of the programs.
func (o *Observer) Costs() ([]observe.ProgramCost, error) { return observe.Costs(o.coll) }

// Unmerged is 0: nothing is told twice.
func (o *Observer) Unmerged() uint64 { return 0 }

// Fill is how full the table of series is.
func (o *Observer) Fill() float64 { return float64(len(o.table.live)) / float64(o.plan.series) }

// MapBytes is the memory of the kernel's tables and of what it keeps of sockets and
// threads; of these no more than said, for nobody tells how many are remembered.
func (o *Observer) MapBytes() uint64 {
	bytes := o.plan.bytes(o.features)
	if o.features.socketStorage {
		bytes += o.sockets.Load() * socketBytes
	}
	if o.features.taskStorage {
		bytes += o.threads.Load() * taskBytes
	}
	return bytes
}

// HeldBytes is the memory of what is known of series; what they count stays in the
// kernel.
func (o *Observer) HeldBytes() uint64 {
	held := o.table.held.Load()
	if o.capture != nil {
		held += o.capture.held.Load() + o.capture.waitingBytes()
	}
	return held
}

// Stop detaches all hooks and takes what they have told of requests.
func (o *Observer) Stop() error {
	if o.stopped {
		return nil
	}
	o.stopped = true
	if o.tls != nil {
		o.tls.Close()
	}
	err := closeAll(o.attached)
	if o.capture != nil {
		err = errors.Join(err, o.capture.stop())
	}
	return err
}

// Close stops observing and frees everything.
func (o *Observer) Close() error {
	errs := []error{o.Stop()}
	if o.capture != nil {
		errs = append(errs, o.capture.close())
	}
	err := errors.Join(append(errs, o.table.close())...)
	o.coll.Close()
	o.warnings.Close()
	return err
}
