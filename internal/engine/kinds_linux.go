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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
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

// kindOf is a kind of observation. start returns nil where the configuration
// does not ask for it.
type kindOf struct {
	kind  observe.Kind
	scope lifecycle.Scope
	start func(*Engine, *kernel.Loader, host) (*running, []process.Selector, error)
}

// startKinds starts what the configuration asks for. A kind that cannot run here
// keeps no other from running; the error is that none can.
func (e *Engine) startKinds(loader *kernel.Loader) error {
	var errs []error
	for _, k := range catalogue {
		started, targets, err := k.start(e, loader, host{subjects: e.subjects, scope: k.scope})
		if err != nil {
			e.missing = append(e.missing, k.kind)
			errs = append(errs, fmt.Errorf("starting %s: %w", k.kind, whatToDo(err)))
			continue
		}
		if started == nil {
			continue
		}
		started.kind = k.kind
		now := time.Now()
		started.drainDue = now.Add(started.DrainInterval())
		started.reportDue = now.Add(started.reportInterval)
		e.running = append(e.running, started)
		e.noteLeftOut(started)
		narrowed, err := e.table.Narrow(fmt.Sprintf("observe::%s::targets", k.kind), targets)
		if err != nil {
			return fmt.Errorf("starting %s: %w", k.kind, err)
		}
		e.subjects.kinds = append(e.subjects.kinds, kindTargets{scope: k.scope, targets: narrowed})
	}
	if len(e.running) == 0 {
		return errors.Join(errs...)
	}
	for i, kind := range e.missing {
		e.degrade(string(kind), errs[i])
	}
	return nil
}

// noteLeftOut remembers that an observation has begun on a part of the CPUs.
func (e *Engine) noteLeftOut(started *running) {
	if p, ok := started.Observation.(observe.Partial); ok && p.LeftOut() != nil {
		e.noteCPUs(fmt.Errorf("%s: %w", started.kind, p.LeftOut()))
	}
}

// begin lets those kinds begin that wait until somebody follows processes. As in
// startKinds, one that cannot keeps no other from running.
func (e *Engine) begin() error {
	var errs []error
	e.running = slices.DeleteFunc(e.running, func(o *running) bool {
		if o.begin == nil {
			return false
		}
		if err := o.begin(); err != nil {
			err = fmt.Errorf("starting %s: %w", o.kind, whatToDo(err))
			errs = append(errs, errors.Join(err, o.Close()))
			e.missing = append(e.missing, o.kind)
			return true
		}
		now := time.Now()
		o.drainDue, o.reportDue = now.Add(o.DrainInterval()), now.Add(o.reportInterval)
		e.noteLeftOut(o)
		return false
	})
	if len(e.running) == 0 {
		return errors.Join(errs...)
	}
	for i, err := range errs {
		e.degrade(string(e.missing[len(e.missing)-len(errs)+i]), err)
	}
	return nil
}

func (e *Engine) startOnCPU(loader *kernel.Loader, host host) (*running, []process.Selector, error) {
	c := e.config.OnCPU
	if c == nil {
		return nil, nil, nil
	}
	profiler, err := oncpu.Start(oncpu.Config{
		Period:       c.Period,
		Cycles:       c.Cycles,
		KernelStacks: c.KernelStacks,
		UserStacks:   c.UserStacks,
		MaxDepth:     c.MaxDepth,
		MapBytes:     e.tableShare(),
		SampleBytes:  e.intervalShare(),
		SysRoot:      e.sysRoot(),
		ProcRoot:     e.procRoot(),
	}, loader, e.sharedMaps(), host)
	if err != nil {
		return nil, nil, err
	}
	started := &running{Observation: profiler, reportInterval: c.ReportInterval}
	started.begin = func() error { return e.beginOnCPU(profiler, started) }
	return started, c.Targets, nil
}

// beginOnCPU begins to sample when those who run now have been met.
func (e *Engine) beginOnCPU(profiler *oncpu.Profiler, started *running) error {
	if e.unwinding != nil {
		if err := profiler.Meet(e.unwinding.settle); err != nil {
			e.logger.Warn("The first samples of those who run now may have no unwind tables", zap.Error(err))
		}
	}
	if err := profiler.Begin(); err != nil {
		return err
	}
	if why := profiler.Degraded(); why != nil {
		e.degrade("on_cpu.event", why)
	}
	period := e.config.OnCPU.Period
	started.starts = fmt.Sprintf("sampling %d CPUs every %s", profiler.Attached(), period)
	started.fields = []zap.Field{zap.Int("cpus", profiler.Attached()), zap.Stringer("period", period)}
	return nil
}

func (e *Engine) startOffCPU(loader *kernel.Loader, host host) (*running, []process.Selector, error) {
	c := e.config.OffCPU
	if c == nil {
		return nil, nil, nil
	}
	observer, err := offcpu.Start(offcpu.Config{
		MinBlock:     c.MinBlock,
		MaxBlock:     c.MaxBlock,
		KernelStacks: c.KernelStacks,
		UserStacks:   c.UserStacks,
		MaxDepth:     c.MaxDepth,
		MapBytes:     e.tableShare(),
		SampleBytes:  e.intervalShare(),
		SysRoot:      e.sysRoot(),
		ProcRoot:     e.procRoot(),
	}, loader, e.sharedMaps(), host)
	if err != nil {
		return nil, nil, err
	}
	if why := observer.Degraded(); why != nil {
		e.degrade("off_cpu.stacks", why)
	}
	return &running{
		Observation: observer, reportInterval: c.ReportInterval,
		starts: fmt.Sprintf("timing waits of %s and more", c.MinBlock),
		fields: []zap.Field{zap.Stringer("min_block", c.MinBlock)},
	}, c.Targets, nil
}

// tableShare is a kind's part of what the kernel's tables may take, intervalShare
// that of what samples may.
func (e *Engine) tableShare() uint64 {
	return e.config.MemoryBytes / mapShare / uint64(e.config.kinds())
}

func (e *Engine) intervalShare() uint64 {
	return e.config.MemoryBytes / sampleShare / uint64(e.config.sampling())
}

// sharedMaps are the maps that all observations use.
func (e *Engine) sharedMaps() map[string]*ebpf.Map {
	shared := e.tracker.SharedMaps()
	if e.unwinding != nil {
		maps.Copy(shared, e.unwinding.store.SharedMaps())
	}
	return shared
}
