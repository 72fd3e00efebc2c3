// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/usage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// policies watches processes and asks for tasks. What takes long, reading processes and
// starting tasks, has goroutines of its own: looks come each second whatever happens.
type policies struct {
	table  *process.Table
	watch  *policy.Watch
	reader usageReader
	// paths are those of requests that leave the kernel; nil where others look at requests, too.
	paths *network.Paths
	// ask starts a task, and returns when it runs.
	ask func(task.Request) []task.Outcome
	// work charges what it does.
	work     func(func())
	tell     func([]*model.Metrics)
	logger   *zap.Logger
	warnings *warn.Rarely
	proc     string // where the host's procfs is mounted
	sys      string // where its sysfs is
	clock    clock
	cpus     int
	cpusDue  time.Duration
	reported time.Duration
	// unread counts processes whose use of the host is not read.
	unread atomic.Uint64

	mu sync.Mutex // all below
	// entries are replaced, never changed.
	entries  []policyEntry
	changes  []process.Change
	triggers []policy.Trigger

	// changed and fired say that there are some.
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

// policyEntry is a policy with whom it watches.
type policyEntry struct {
	Policy
	targets *process.Narrowing
}

const (
	// lateLook is how long after a second's end those requests are looked at again that
	// are told by then: pieces are read each 50 ms, and wait 20 ms to be in order.
	lateLook = 90 * time.Millisecond
	// starters is how many tasks are asked for at once: as many as run at once by default, so
	// that none waits for another one's programs to be loaded.
	starters = 16
	// valuesInterval is how often the values of monitors are told.
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
		table: e.table, watch: policy.New(nil), reader: reader, work: e.work.run, tell: e.hooks.Metrics, logger: e.logger,
		warnings: warn.NewRarely(e.logger, "Policies see less than is configured", nil),
		proc:     e.procRoot(), sys: e.sysRoot(),
		ask: e.hooks.Ask, changed: make(chan struct{}, 1), fired: make(chan struct{}, 1),
	}
	if e.config.monitorsRequests() && !e.config.networkHears() {
		if p.paths, err = network.NewPaths(); err != nil {
			return nil, errors.Join(err, p.close())
		}
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

// Windows are what its policies have seen, for the engine that follows; nil where it has
// none. Call it after Shutdown.
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
	p.watch.Replace(rulesOf(list), func(known *model.Process) []int {
		by := p.matching(entries, known)
		p.wants(known.ID, entries, by)
		return by
	})
	return nil
}

// wants has those requests of a process leave the kernel that policies look at which watch it.
func (p *policies) wants(id model.ProcessID, entries []policyEntry, by []int) {
	if p.paths == nil {
		return
	}
	rules := make([]policy.Policy, len(by))
	for i, entry := range by {
		rules[i] = entries[entry].Policy.Policy
	}
	wanted, err := policy.WantedBy(rules), error(nil)
	if wanted.All {
		err = p.paths.Remove(id.PID)
	} else {
		err = p.paths.Set(id.PID, network.Wanted{Told: wanted.Told, Counted: wanted.Counted, Begun: wanted.Begun, Rest: wanted.Rest})
	}
	if err != nil {
		p.warnings.Warn(err)
	}
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

// launch starts what runs until the context ends.
func (p *policies) launch(ctx context.Context, group *sync.WaitGroup) {
	group.Go(func() { p.follow(ctx) })
	group.Go(func() { p.run(ctx) })
	for range starters {
		group.Go(func() { p.start(ctx) })
	}
}

// scopeChanged is told who came into scope, left it, or runs another program.
func (p *policies) scopeChanged(changes []process.Change) {
	p.mu.Lock()
	p.changes = append(p.changes, changes...)
	p.mu.Unlock()
	rouse(p.changed)
}

// follow reads processes that come, and forgets those that go.
func (p *policies) follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		}
		p.mu.Lock()
		changes := p.changes
		p.changes = nil
		p.mu.Unlock()
		for _, change := range changes {
			if ctx.Err() != nil {
				return
			}
			p.work(func() { p.take(change) })
		}
	}
}

func (p *policies) take(change process.Change) {
	if change.Kind == process.Removed {
		p.forget(change.ID)
		return
	}
	known, inScope, err := p.table.Lookup(change.ID)
	if err != nil || !inScope {
		p.forget(change.ID) // it has ended, which is told next
		return
	}
	p.mu.Lock()
	by := p.matching(p.entries, known)
	p.watch.Add(known, by)
	p.wants(known.ID, p.entries, by)
	p.mu.Unlock()
	if len(by) == 0 {
		p.forget(change.ID)
		return
	}
	if err := p.reader.Add(change.ID); err != nil {
		p.unread.Add(1)
		p.warnings.Warn(err)
	}
}

func (p *policies) forget(id model.ProcessID) {
	p.watch.Remove(id)
	if p.paths != nil {
		if err := p.paths.Remove(id.PID); err != nil {
			p.warnings.Warn(err)
		}
	}
	if err := p.reader.Remove(id); err != nil {
		p.warnings.Warn(err)
	}
}

// probePolicies names what policies lose.
const probePolicies = "policies"

func (p *policies) stats(stats *Stats) {
	watch := p.watch.Stats()
	stats.Triggers = watch.Triggers
	stats.Lost[LossKey{probePolicies, "seconds_missed"}] = watch.Missed
	stats.Lost[LossKey{probePolicies, "request_late"}] = watch.Late
	stats.Lost[LossKey{probePolicies, "windows_full"}] = watch.Crowded
	stats.Lost[LossKey{probePolicies, "processes_full"}] = p.unread.Load()
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
