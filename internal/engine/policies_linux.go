// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/usage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// policies watches processes and starts tasks. What takes long, reading processes and
// starting tasks, has goroutines of its own: the policies are evaluated each second in any case.
type policies struct {
	table  *process.Table
	watch  *policy.Watch
	reader usageReader
	// paths are those of requests that leave the kernel; nil where the kind network reads requests, too.
	paths *network.Paths
	// ask starts a task, and returns when it runs or waits.
	ask func(task.Request) []task.Outcome
	// work charges what it does.
	work          func(func())
	exportMetrics func([]*model.Metrics)
	logger        *zap.Logger
	warnings      *warn.Rarely
	proc          string // where the host's procfs is mounted
	sys           string // where its sysfs is
	clock         clock
	named         bool // the configuration names the processes in scope
	// byInstance has values reported by service instance.
	byInstance bool
	cpus       int
	cpusDue    time.Duration
	reported   time.Duration
	// hostReaders are those of the host's monitors that were read before. Only the goroutine of run uses them.
	hostReaders map[*monitor.Descriptor]monitor.HostReader
	// unread counts processes that could not be read, and crowded those whose use of the host is
	// not read.
	unread, crowded atomic.Uint64

	mu sync.Mutex // all below
	// entries are replaced, never changed.
	entries  []policyEntry
	changes  []process.Change
	triggers []policy.Trigger
	// missed are the processes in scope of which something could not be read, with what has
	// counted them: they are tried again with each scan.
	missed map[model.ProcessID]*atomic.Uint64

	// changed and fired signal that there are changes and triggers.
	changed, fired chan struct{}
}

// usageReader reads what processes use, see [usage.Reader].
type usageReader interface {
	Add(model.ProcessID) error
	Remove(model.ProcessID) error
	Read() error
	Of(model.ProcessID) (usage.Usage, bool)
	MapBytes() uint64
	Close() error
}

// policyEntry is a policy with the processes that it watches.
type policyEntry struct {
	Policy
	targets *process.Narrowing
}

const (
	// lateEvaluation is how long after a second's end the policies are evaluated again with the requests that
	// have arrived by then: segments are read each 50 ms where policies use requests, and wait 20 ms to be in order.
	lateEvaluation = 90 * time.Millisecond
	// starters is how many tasks are started at once: as many as run at once by default, so
	// that none waits for another one's programs to be loaded.
	starters = 16
	// gather is for how long changes of processes are gathered: those that live shorter, as many do
	// on a host that builds or runs scripts, cost nothing. It is a small part of the first second.
	gather = 100 * time.Millisecond
	// valuesInterval is how often the values of monitors are exported.
	valuesInterval = 10 * time.Second
	// cpusInterval is how often the host's CPUs are counted.
	cpusInterval = 10 * time.Second
)

// startPolicies prepares to watch where there are policies.
func (e *Engine) startPolicies(loader *kernel.Loader) (err error) {
	if len(e.config.Policies) == 0 {
		return nil
	}
	e.policies, err = newPolicies(e, loader)
	return err
}

// newPolicies prepares to watch. ask is set before it runs.
func newPolicies(e *Engine, loader *kernel.Loader) (*policies, error) {
	reader, err := usage.Open(loader, trackedProcesses)
	if err != nil {
		return nil, fmt.Errorf("watching processes for policies: %w", err)
	}
	p := &policies{
		table: e.table, watch: policy.New(nil), reader: reader, work: e.work.run, exportMetrics: e.hooks.Metrics, logger: e.logger,
		warnings: warn.NewRarely(e.logger, "Policies see less than is configured", nil),
		proc:     e.procRoot(), sys: e.sysRoot(), named: len(e.config.Include) > 0,
		byInstance: e.config.MetricsByInstance,
		ask:        e.hooks.Ask, changed: make(chan struct{}, 1), fired: make(chan struct{}, 1),
		missed: map[model.ProcessID]*atomic.Uint64{},
	}
	if e.config.monitorsRequests() && !e.config.monitorsAreCovered() {
		if p.paths, err = network.NewPaths(); err != nil {
			return nil, errors.Join(err, p.close())
		}
		e.config.monitors = network.NewMonitorPlan()
		e.config.monitors.Narrow(p.paths)
	}
	if before := e.config.Before; before != nil {
		p.watch, p.clock.line = policy.Resume(before.watch), before.line
	}
	p.readClocks() // before the first request is counted
	if err := p.replace(e.config.Policies); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// Windows returns what its policies have recorded, for the engine that follows; nil where it has
// no policies. Call it after Shutdown.
func (e *Engine) Windows() *Windows {
	if e.policies == nil {
		return nil
	}
	return &Windows{watch: e.policies.watch, line: e.policies.clock.line}
}

// replace watches by other policies from now on. Windows of what did not change go on.
func (p *policies) replace(list []Policy) error {
	entries := make([]policyEntry, len(list))
	for i := range list {
		narrowed, err := p.table.Narrow(fmt.Sprintf("policies[%d]::targets", i), list[i].Targets)
		if err != nil {
			return err
		}
		entries[i] = policyEntry{Policy: list[i], targets: narrowed}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entries = entries
	p.watch.Replace(rulesOf(list, p.named), func(known *model.Process) []int {
		by := p.matching(entries, known)
		p.wants(known.ID, entries, by)
		return by
	})
	return nil
}

// wants has those requests of a process leave the kernel that the policies which watch it use.
func (p *policies) wants(id model.ProcessID, entries []policyEntry, by []int) {
	if p.paths == nil {
		return
	}
	var err error
	if wanted, narrowed := wantedBy(entries, by); narrowed {
		err = p.paths.Set(id.PID, wanted)
	} else {
		err = p.paths.Remove(id.PID)
	}
	if err != nil {
		p.warnings.Warn(err)
	}
}

// wantedBy are the requests of a process that the policies which watch it use; narrowed is false
// where that is all of them, and where no policy uses requests, so that the programs read none.
func wantedBy(entries []policyEntry, by []int) (_ network.Wanted, narrowed bool) {
	var rules []policy.Policy
	for _, i := range by {
		if entries[i].OfRequests() {
			rules = append(rules, entries[i].Policy.Policy)
		}
	}
	wanted := policy.WantedBy(rules)
	return network.Wanted{Reported: wanted.Reported, Counted: wanted.Counted, Begun: wanted.Begun, Rest: wanted.Rest}, len(rules) > 0 && !wanted.All
}

// matching are the policies that watch a process, by their index.
func (p *policies) matching(entries []policyEntry, known *model.Process) []int {
	var by []int
	for i := range entries {
		if p.table.Matches(entries[i].targets, known) {
			by = append(by, i)
		}
	}
	return by
}

// watchesRequestsOf reports whether any policy that watches a process uses its requests.
func (p *policies) watchesRequestsOf(known *model.Process) bool {
	p.mu.Lock()
	entries := p.entries
	p.mu.Unlock()
	return slices.ContainsFunc(entries, func(e policyEntry) bool { return e.OfRequests() && p.table.Matches(e.targets, known) })
}

// launch starts what runs until the context ends.
func (p *policies) launch(ctx context.Context, group *sync.WaitGroup) {
	group.Go(func() { p.follow(ctx) })
	group.Go(func() { p.run(ctx) })
	for range starters {
		group.Go(func() { p.start(ctx) })
	}
}

// scopeChanged is called with the processes that came into scope, left it, or have changed.
func (p *policies) scopeChanged(changes []process.Change) {
	p.mu.Lock()
	p.changes = append(p.changes, changes...)
	p.mu.Unlock()
	rouse(p.changed)
}

// follow reads processes that come, and forgets those that go.
func (p *policies) follow(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		}
		timer.Reset(gather)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		for _, change := range p.gathered() {
			if ctx.Err() != nil {
				return
			}
			p.work(func() { p.take(change) })
		}
	}
}

// gathered are the changes since the last call, of each process the last one: a process that has come and
// gone is not read.
func (p *policies) gathered() []process.Change {
	p.mu.Lock()
	changes := p.changes
	p.changes = nil
	p.mu.Unlock()
	last := make(map[model.ProcessID]int, len(changes))
	for i, change := range changes {
		last[change.ID] = i
	}
	n := 0
	for i, change := range changes {
		if last[change.ID] == i {
			changes[n] = change
			n++
		}
	}
	return changes[:n]
}

func (p *policies) take(change process.Change) {
	if change.Kind == process.Removed {
		p.forget(change.ID)
		return
	}
	known, inScope, err := p.table.Lookup(change.ID)
	switch {
	case errors.Is(err, process.ErrGone), err == nil && !inScope:
		p.forget(change.ID) // the next change reports it
		return
	case err != nil:
		p.miss(change.ID, &p.unread, err)
		return
	}
	p.mu.Lock()
	by := p.matching(p.entries, known)
	p.watch.Add(known, by)
	p.wants(known.ID, p.entries, by)
	p.mu.Unlock()
	if len(by) == 0 {
		p.leave(change.ID)
		return
	}
	if err := p.reader.Add(change.ID); err != nil {
		p.watch.Unread(change.ID)
		p.miss(change.ID, &p.crowded, err)
		return
	}
	p.found(change.ID)
}

// miss counts a process once of which something could not be read, which is tried again with the
// next scan.
func (p *policies) miss(id model.ProcessID, counter *atomic.Uint64, why error) {
	p.mu.Lock()
	again := p.missed[id] == counter
	p.missed[id] = counter
	p.mu.Unlock()
	if !again {
		counter.Add(1)
	}
	p.warnings.Warn(fmt.Errorf("process %d is tried again with the next scan: %w", id.PID, why))
}

func (p *policies) found(id model.ProcessID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.missed, id)
}

// scanned is called when the processes were scanned.
func (p *policies) scanned() {
	p.mu.Lock()
	for id := range p.missed {
		p.changes = append(p.changes, process.Change{ID: id, Kind: process.Described})
	}
	p.mu.Unlock()
	rouse(p.changed)
}

func (p *policies) forget(id model.ProcessID) {
	p.watch.Remove(id)
	p.leave(id)
}

// leave has nothing be read any more of a process that no policy watches.
func (p *policies) leave(id model.ProcessID) {
	p.found(id)
	if p.paths != nil {
		if err := p.paths.Remove(id.PID); err != nil {
			p.warnings.Warn(err)
		}
	}
	if err := p.reader.Remove(id); err != nil {
		p.warnings.Warn(err)
	}
}

// probePolicies is the probe of the losses of policies.
const probePolicies = "policies"

func (p *policies) stats(stats *Stats) {
	watch := p.watch.Stats()
	stats.Triggers = watch.Triggers
	stats.Lost[LossKey{probePolicies, "seconds_missed"}] = watch.Missed
	stats.Lost[LossKey{probePolicies, "request_late"}] = watch.Late
	stats.Lost[LossKey{probePolicies, "paths_unmatched"}] = watch.Unmatched
	stats.Lost[LossKey{probePolicies, "windows_full"}] = watch.Crowded
	stats.Lost[LossKey{probePolicies, "processes_full"}] = p.crowded.Load()
	stats.Lost[LossKey{probePolicies, "processes_unread"}] = p.unread.Load()
}

// bytes is the memory of what is known of processes, and of the kernel's maps.
func (p *policies) bytes() uint64 {
	bytes := p.watch.Bytes() + p.reader.MapBytes()
	if p.paths != nil {
		bytes += p.paths.MapBytes()
	}
	return bytes
}

// close frees everything; nothing runs any more.
func (p *policies) close() error {
	p.warnings.Close()
	err := p.reader.Close()
	if p.paths != nil {
		err = errors.Join(err, p.paths.Close())
	}
	return err
}
