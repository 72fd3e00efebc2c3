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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/garbage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	processes "github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

const (
	// drainInterval is how soon a new series is noticed, while its process is known.
	drainInterval = time.Second
	// exportInterval is drainInterval if each request is exported by itself: what waits for export is bounded, and what is handed over at
	// once must be a small part of that.
	exportInterval = 250 * time.Millisecond
)

// Observer is a running observation of the network.
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
	level    int // by which less is captured
	skew     skew
	failed   error // the error of the last report, which the next Drain returns
	stopped  bool
	// warnings logs why peers are not resolved, unresolved is the number that was logged.
	warnings   *warn.Rarely
	unresolved uint64

	capture *capture     // nil if requests are not captured
	tls     *tlsAttacher // nil if no library is attached to
	pages   requests.Pages
	losses  [bindings.NetworkNetworkLossNETWORK_LOSS_REASONS]atomic.Uint64
	hooks   atomic.Int64
	sockets atomic.Uint64
	listed  atomic.Uint64 // sockets in the list, as of the last count
	list    listReader
	// counted is when sockets were last counted, counting how long that took.
	counted  time.Time
	counting time.Duration
	threads  atomic.Uint64 // of the host: they bound the per-thread state
	// noted is how many ends of connections were noted until marked, and how many of them are clients'.
	noted  struct{ ends, clients uint32 }
	marked time.Time
}

var (
	_ observe.Observation = (*Observer)(nil)
	_ observe.Reducer     = (*Observer)(nil)
	_ observe.Follower    = (*Observer)(nil)
	_ observe.Narrator    = (*Observer)(nil)
	_ observe.Stopper     = (*Observer)(nil)
	_ observe.SeriesOwner = (*Observer)(nil)
)

// Start loads the programs and starts observing. shared are the maps of process.bpf.c.
func Start(config Config, loader *kernel.Loader, shared map[string]*ebpf.Map, host observe.Host) (*Observer, error) {
	has, err := featuresOf(loader)
	if err != nil {
		return nil, err
	}
	return start(config, has, loader, shared, host)
}

func start(config Config, has features, loader *kernel.Loader, shared map[string]*ebpf.Map, host observe.Host) (_ *Observer, err error) {
	spec, err := readPrograms(config.Requests)
	if err != nil {
		return nil, err
	}
	has.requests = config.Requests
	if config.OnlyAnswered {
		has = has.onlyAnswers()
	}
	if has, err = has.countingBy(loader.Load, spec, shared, config.Logger); err != nil {
		return nil, err
	}
	o := &Observer{
		config: config, features: has, epoch: 1,
		plan: newPlan(config, has, runtime.NumCPU()),
		warnings: warn.NewRarely(config.Logger,
			"Could not resolve the translated addresses of some peers; they are reported with the addresses of their sockets", nil),
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
	garbage.Free() // of programs that are not loaded
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
	o.table.byInstance, o.table.exponential, o.table.detail = config.ByInstance, config.ExponentialHistograms, config.Peers
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
	if config.Requests { // until now the records of the programs wait in their buffer
		if o.capture, err = startCapture(config, o.coll, &o.table, o.tls); err != nil {
			return nil, err
		}
	}
	o.hooks.Store(int64(len(o.attached)))
	return o, errors.Join(o.measureSkew(), o.adopt())
}

// readPrograms reads the object with capture, or the smaller one without.
func readPrograms(capture bool) (*ebpf.CollectionSpec, error) {
	read := bindings.LoadNetwork
	if capture {
		read = bindings.LoadNetworkCapture
	}
	spec, err := read()
	if err != nil {
		return nil, fmt.Errorf("reading the network programs: %w", err)
	}
	return spec, nil
}

// DrainInterval returns how often Drain checks for new series.
func (o *Observer) DrainInterval() time.Duration {
	if o.capture != nil && o.config.Journal.Which == requests.AllRequests {
		return exportInterval
	}
	return drainInterval
}

// Drain finds the processes of the series that have begun.
func (o *Observer) Drain() error {
	o.epoch++
	failed := o.failed
	o.failed = nil
	if o.capture != nil {
		o.nameRequests()
		failed = errors.Join(failed, o.capture.ring.failure())
	}
	return errors.Join(failed, o.measureSkew(), o.countAgain(), o.markEnds(), o.coll.Variables[bindings.NetworkVarEpoch].Set(o.epoch), o.adopt(), o.table.discover(), o.table.share(), o.readLosses(), o.countThreads())
}

// measureSkew passes the skew of the clocks to the programs.
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
			return fmt.Errorf("reading the losses of the network programs: %w", err)
		}
		var sum uint64
		for _, n := range perCPU {
			sum += n
		}
		o.losses[reason].Store(sum)
	}
	return nil
}

// Report returns what was counted of each process. Peers whose sockets are closed are removed two reports later.
func (o *Observer) Report(until time.Time) model.Findings {
	o.failed = errors.Join(o.table.discover(), o.countSockets(), o.table.review(), o.table.join(), o.table.read())
	if o.failed == nil {
		o.failed = o.table.leaveOut()
	}
	o.table.nameForRequests()
	found := model.Findings{Metrics: o.table.metrics(until, o.reasons, o.config.Only)}
	if o.failed == nil {
		o.failed = o.table.takeBack()
	}
	o.warnUnresolved()
	if o.capture != nil {
		top := o.capture.takeTop()
		o.nameRequests()
		found.Logs = o.exportTop(top, until)
		o.capture.totals.NamePeers()
		o.failed = errors.Join(o.failed, o.capture.totals.LeaveOut(o.table.staysQuiet))
		found.Metrics = append(found.Metrics, o.capture.totals.Metrics(until, requestRoles[o.config.Only])...)
	}
	return found
}

// requestRoles are the roles of exchanges.
var requestRoles = map[Role]l7.Role{NoRole: l7.RoleUnknown, Client: l7.RoleClient, Server: l7.RoleServer}

// nameRequests finds the processes of the requests that were captured since the last call, and of the connections without a captured request.
func (o *Observer) nameRequests() {
	process := func(subject observe.SubjectKey) (*model.Process, bool) {
		known, why := o.table.host.Subject(subject, "")
		if known != nil {
			return known.Process(), true
		}
		return nil, why != observe.Undecided
	}
	o.capture.totals.Name(process)
	inScope := func(subject observe.SubjectKey) bool {
		known, _ := process(subject)
		return known != nil
	}
	o.capture.lost.Decide(inScope)
	o.capture.opaque.name(inScope)
	o.capture.unseen.name(inScope)
}

// warnUnresolved logs why connection tracking could not be queried for peers.
func (o *Observer) warnUnresolved() {
	nat := o.table.ends.nat
	if nat == nil {
		return
	}
	if failed := nat.Stats().Failed; failed > o.unresolved {
		o.unresolved = failed
		o.warnings.Warn(nat.Degraded())
	}
}

// Degraded returns why the observation is less complete than it could be, or nil.
func (o *Observer) Degraded() error {
	if o.less == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", o.features.withoutCalls(), o.less)
}

// WithoutRequests returns why requests are configured and none are reported, or nil.
func (o *Observer) WithoutRequests() error { return o.features.withoutRequests(o.less) }

// DegradedUring returns why requests by io_uring are not reported, or nil.
func (o *Observer) DegradedUring() error { return o.features.withoutUring() }

// Attached returns the number of hooks.
func (o *Observer) Attached() int {
	n := int(o.hooks.Load())
	if o.tls != nil {
		n += o.tls.Functions()
	}
	return n
}

// lossReasons are the reasons of enum network_loss.
var lossReasons = [...]struct {
	name    string
	partial bool
}{
	bindings.NetworkNetworkLossNETWORK_LOST_SERIES:    {"series_full", true},
	bindings.NetworkNetworkLossNETWORK_LOST_SOCKETS:   {"sockets_full", true},
	bindings.NetworkNetworkLossNETWORK_LOST_THREADS:   {"threads_full", true},
	bindings.NetworkNetworkLossNETWORK_LOST_COUNTS:    {"counts_full", false},
	bindings.NetworkNetworkLossNETWORK_LOST_PEERS:     {"peer_unknown", true},
	bindings.NetworkNetworkLossNETWORK_LOST_LISTENERS: {"listeners_full", true},
	bindings.NetworkNetworkLossNETWORK_LOST_SEGMENTS:  {"buffer_full", false},
	bindings.NetworkNetworkLossNETWORK_LOST_TLS:       {"tls_unknown", false},
	bindings.NetworkNetworkLossNETWORK_LOST_ENDS:      {"ends_full", true},
	bindings.NetworkNetworkLossNETWORK_LOST_VALUES:    {"values_full", false},
	bindings.NetworkNetworkLossNETWORK_LOST_FRAMES:    {"frames_full", true},
}

// Losses returns what could not be counted, or is incomplete, since the start.
func (o *Observer) Losses() []observe.Loss {
	list := make([]observe.Loss, 0, len(lossReasons))
	for i, reason := range lossReasons {
		list = append(list, observe.Loss{
			Probe: string(Name), Reason: reason.name, Count: o.losses[i].Load(), Incomplete: reason.partial,
		})
	}
	list = append(list, observe.Loss{Probe: string(Name), Reason: "peers_full", Count: o.table.kept.excess.Load(), Incomplete: true})
	if o.capture != nil {
		list = append(list, o.capture.losses()...)
	}
	if o.tls != nil {
		list = append(list, observe.Loss{Probe: string(Name), Reason: "tls_not_attached", Count: o.tls.Failed()})
	}
	if nat := o.table.ends.nat; nat != nil {
		stats := nat.Stats()
		list = append(list, observe.Loss{
			Probe: string(Name), Reason: "nat_unresolved", Count: stats.Skipped + stats.Gone + stats.Failed, Incomplete: true,
		})
	}
	return list
}

// Samples returns the number of operations that were counted, as of the last report.
func (o *Observer) Samples() uint64 { return o.table.operations.Load() }

// Costs reads the kernel's run-time statistics of the programs.
func (o *Observer) Costs() ([]observe.ProgramCost, error) { return observe.Costs(o.coll) }

// RetiredSeries returns how many series ended after being idle for long.
func (o *Observer) RetiredSeries() uint64 {
	n := o.table.kept.retired.Load()
	if o.capture != nil {
		n += o.capture.totals.Retired()
	}
	return n
}

// Fill returns how full the table of series is.
func (o *Observer) Fill() float64 { return float64(len(o.table.live)) / float64(o.plan.series) }

// MapBytes returns the memory of the kernel's tables and of what it keeps of sockets and threads. Of these it returns the bound, since the
// number that is remembered is unknown.
func (o *Observer) MapBytes() uint64 {
	bytes := o.plan.bytes(o.features)
	if o.features.socketStorage {
		bytes += o.sockets.Load() * socketBytes
	}
	if o.features.listed && o.features.allocates {
		bytes += o.listed.Load() * listedBytes
	}
	if o.features.taskStorage {
		bytes += o.threads.Load() * taskBytes
	}
	return bytes
}

// HeldBytes returns the memory of series; their counts stay in the kernel.
func (o *Observer) HeldBytes() uint64 {
	held := o.table.held.Load()
	if o.capture != nil {
		held += o.capture.held.Load() + o.capture.waitingBytes() + o.capture.totals.Bytes()
	}
	return held
}

// Stop detaches all hooks and reads what they have recorded of requests.
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

// Close stops observing and frees all resources.
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
