// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"fmt"
	"maps"
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
		if p, ok := started.Observation.(observe.Partial); ok && p.LeftOut() != nil {
			e.noteCPUs(fmt.Errorf("%s: %w", k.kind, p.LeftOut()))
		}
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
		MapBytes:     e.share(mapShare),
		SampleBytes:  e.share(sampleShare),
		SysRoot:      e.sysRoot(),
		ProcRoot:     e.procRoot(),
	}, loader, e.sharedMaps(), host)
	if err != nil {
		return nil, nil, err
	}
	if why := profiler.Degraded(); why != nil {
		e.degrade("on_cpu.event", why)
	}
	return &running{
		Observation: profiler, reportInterval: c.ReportInterval,
		starts: fmt.Sprintf("sampling %d CPUs every %s", profiler.Attached(), c.Period),
		fields: []zap.Field{zap.Int("cpus", profiler.Attached()), zap.Duration("period", c.Period)},
	}, c.Targets, nil
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
		MapBytes:     e.share(mapShare),
		SampleBytes:  e.share(sampleShare),
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
		fields: []zap.Field{zap.Duration("min_block", c.MinBlock)},
	}, c.Targets, nil
}

// share is a kind's part of what the kinds have together.
func (e *Engine) share(of uint64) uint64 { return e.config.MemoryBytes / of / uint64(e.config.kinds()) }

// sharedMaps are the maps that all observations use.
func (e *Engine) sharedMaps() map[string]*ebpf.Map {
	shared := e.tracker.SharedMaps()
	if e.unwinding != nil {
		maps.Copy(shared, e.unwinding.store.SharedMaps())
	}
	return shared
}
