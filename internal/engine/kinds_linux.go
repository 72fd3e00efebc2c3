// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// catalogue lists the kinds of observation. A new kind is one line here.
var catalogue = []kindOf{
	{observe.OnCPU, lifecycle.ScopeOnCPU, (*Engine).startOnCPU},
	{observe.OffCPU, lifecycle.ScopeOffCPU, (*Engine).startOffCPU},
	{observe.Memory, lifecycle.ScopeMemory, (*Engine).startMemory},
	{observe.Network, lifecycle.ScopeNetwork, (*Engine).startNetwork},
	{observe.Monitors, lifecycle.ScopeMonitors, (*Engine).startMonitors},
}

// kindOf is a kind of observation.
type kindOf struct {
	kind  observe.Kind
	scope lifecycle.Scope
	start func(*Engine, Options, provision) (*running, error)
}

// provision is what an observation is started with beside its options.
type provision struct {
	loader *kernel.Loader
	host   host
	// tableBytes and sampleBytes bound the kernel's tables and an interval's samples, and
	// memoryBytes is the memory of which what is known of sockets, connections and requests has
	// its shares.
	tableBytes, sampleBytes, memoryBytes uint64
}

// launch starts an observation; its begin may be still to come.
func (k *kindOf) launch(e *Engine, options Options, l provision) (*running, error) {
	started, err := k.start(e, options, l)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", k.kind, whatToDo(err))
	}
	started.kind, started.reportInterval = k.kind, options.reportInterval()
	started.due(time.Now())
	return started, nil
}

// due has it drained and reported an interval from now.
func (o *running) due(now time.Time) {
	o.drainDue, o.reportDue = now.Add(o.DrainInterval()), now.Add(o.reportInterval)
}

// kindNamed returns an entry of the catalogue.
func kindNamed(kind observe.Kind) *kindOf {
	for i := range catalogue {
		if catalogue[i].kind == kind {
			return &catalogue[i]
		}
	}
	return nil
}

// targetKinds says of each kind that the configuration asks for whom it observes, before
// anybody is decided about.
func (e *Engine) targetKinds() error {
	for _, options := range e.config.asked() {
		k := kindNamed(options.kind())
		matches, err := e.targeting(options)
		if err != nil {
			return fmt.Errorf("starting %s: %w", k.kind, err)
		}
		e.subjects.addKind(kindTargets{scope: k.scope, stacks: options.takesStacks(), matches: matches})
	}
	return nil
}

// targeting says of those in scope whom a kind observes that the configuration asks for.
func (e *Engine) targeting(options Options) (func(*model.Process) bool, error) {
	if options.kind() == observe.Monitors {
		return e.policies.lookAtRequestsOf, nil
	}
	narrowed, err := e.table.Narrow(fmt.Sprintf("observe::%s::targets", options.kind()), options.targets())
	return func(p *model.Process) bool { return e.table.Matches(narrowed, p) }, err
}

// observe begins what the configuration asks for, what samples before the others are
// loaded: the kernel takes longer to verify the network's programs than all else takes.
func (e *Engine) observe(loader *kernel.Loader) error {
	e.begin()
	e.startKinds(loader, func(o Options) bool { return !samples(o) })
	e.noteFollowers()
	for _, o := range e.running {
		e.introduce(o)
	}
	return e.noteMissing()
}

// startKinds starts those of the kinds that the configuration asks for. A kind that cannot
// run here keeps no other from running.
func (e *Engine) startKinds(loader *kernel.Loader, those func(Options) bool) {
	for _, options := range e.config.asked() {
		if !those(options) {
			continue
		}
		k := kindNamed(options.kind())
		started, err := k.launch(e, options, provision{
			loader: loader, host: host{subjects: e.subjects, scope: k.scope}, tableBytes: e.tableShare(), sampleBytes: e.intervalShare(),
			memoryBytes: e.socketMemory(),
		})
		if err != nil {
			e.lack(k, err)
			continue
		}
		e.running = append(e.running, started)
		e.noteLeftOut(started)
	}
}

// missingKind is a kind that the configuration asks for and that cannot run here.
type missingKind struct {
	kind observe.Kind
	why  error
}

// lack notes that a kind cannot run here.
func (e *Engine) lack(k *kindOf, why error) {
	e.missing = append(e.missing, missingKind{k.kind, why})
	e.subjects.removeKind(k.scope)
}

// noteMissing says which kinds cannot run here. The error is that none can.
func (e *Engine) noteMissing() error {
	if len(e.running) == 0 && !e.config.OnDemand {
		var errs []error
		for _, m := range e.missing {
			errs = append(errs, m.why)
		}
		return errors.Join(errs...)
	}
	for _, m := range e.missing {
		e.degrade(string(m.kind), m.why)
		e.subjects.rescope(kindNamed(m.kind).scope)
	}
	return nil
}

// noteLeftOut remembers that an observation has begun on a part of the CPUs.
func (e *Engine) noteLeftOut(started *running) {
	if p, ok := started.Observation.(observe.Partial); ok && p.LeftOut() != nil {
		e.noteCPUs(fmt.Errorf("%s: %w", started.kind, p.LeftOut()))
	}
}

// begin lets those kinds begin that wait until somebody follows processes.
func (e *Engine) begin() {
	e.running = slices.DeleteFunc(e.running, func(o *running) bool {
		if o.begin == nil {
			return false
		}
		if err := o.begin(meetMax); err != nil {
			err = fmt.Errorf("starting %s: %w", o.kind, whatToDo(err))
			e.lack(kindNamed(o.kind), errors.Join(err, o.Close()))
			return true
		}
		o.due(time.Now())
		e.noteLeftOut(o)
		return false
	})
}

func (e *Engine) startOnCPU(options Options, l provision) (*running, error) {
	c := options.(*OnCPU)
	profiler, err := oncpu.Start(oncpu.Config{
		Period:       c.Period,
		Cycles:       c.Cycles,
		KernelStacks: c.KernelStacks,
		UserStacks:   c.UserStacks,
		MaxDepth:     c.MaxDepth,
		MapBytes:     l.tableBytes,
		SampleBytes:  l.sampleBytes,
		SysRoot:      e.sysRoot(),
		ProcRoot:     e.procRoot(),
	}, l.loader, e.sharedMaps(), l.host)
	if err != nil {
		return nil, err
	}
	started := &running{Observation: profiler}
	started.begin = func(meet time.Duration) error { return e.beginOnCPU(profiler, started, c, meet) }
	return started, nil
}

// beginOnCPU begins to sample when those who run now have been met, for which it waits
// for meet at most.
func (e *Engine) beginOnCPU(profiler *oncpu.Profiler, started *running, c *OnCPU, meet time.Duration) error {
	if e.unwinding != nil && c.UserStacks && meet > 0 {
		if err := profiler.Meet(func() { e.unwinding.settle(meet) }); err != nil {
			e.logger.Warn("The first samples of those who run now may have no unwind tables", zap.Error(err))
		}
	}
	if err := profiler.Begin(); err != nil {
		return err
	}
	if why := profiler.Degraded(); why != nil {
		e.degrade("on_cpu.event", why)
	}
	period := c.Period
	started.starts = fmt.Sprintf("sampling %d CPUs every %s", profiler.Attached(), period)
	started.fields = []zap.Field{zap.Int("cpus", profiler.Attached()), zap.Stringer("period", period)}
	return nil
}

func (e *Engine) startOffCPU(options Options, l provision) (*running, error) {
	c := options.(*OffCPU)
	observer, err := offcpu.Start(offcpu.Config{
		MinBlock:     c.MinBlock,
		MaxBlock:     c.MaxBlock,
		KernelStacks: c.KernelStacks,
		UserStacks:   c.UserStacks,
		MaxDepth:     c.MaxDepth,
		MapBytes:     l.tableBytes,
		SampleBytes:  l.sampleBytes,
		SysRoot:      e.sysRoot(),
		ProcRoot:     e.procRoot(),
	}, l.loader, e.sharedMaps(), l.host)
	if err != nil {
		return nil, err
	}
	if why := observer.Degraded(); why != nil {
		e.degrade("off_cpu.stacks", why)
	}
	return &running{
		Observation: observer,
		starts:      fmt.Sprintf("timing waits of %s and more", c.MinBlock),
		fields:      []zap.Field{zap.Stringer("min_block", c.MinBlock)},
	}, nil
}

// tableShare is a kind's part of what the kernel's tables may take, intervalShare
// that of what samples may. Where tasks may run, they have half of both.
func (e *Engine) tableShare() uint64 {
	return e.config.MemoryBytes / mapShare / e.halves() / uint64(max(1, len(e.config.asked())))
}

func (e *Engine) intervalShare() uint64 {
	return e.config.MemoryBytes / sampleShare / e.halves() / uint64(max(1, e.config.numberAsked(samples)))
}

// socketMemory is what each of those kinds has shares of that remember sockets.
func (e *Engine) socketMemory() uint64 {
	return e.config.MemoryBytes / e.halves() / uint64(max(1, e.config.numberAsked(remembersSockets)))
}

// socketMemoryLent is that of an observation that tasks share.
func (e *Engine) socketMemoryLent(s *shared) uint64 {
	if !remembersSockets(s.options) {
		return 0
	}
	return e.config.MemoryBytes / 2 * e.demand.lend(s) / lendable
}

func (e *Engine) halves() uint64 {
	if e.config.OnDemand {
		return 2
	}
	return 1
}

// sharedMaps are the maps that all observations use.
func (e *Engine) sharedMaps() map[string]*ebpf.Map {
	shared := e.tracker.SharedMaps()
	if e.unwinding != nil {
		maps.Copy(shared, e.unwinding.store.SharedMaps())
	}
	return shared
}
