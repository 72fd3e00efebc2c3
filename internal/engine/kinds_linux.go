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

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/kinds"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// provision is what differs between the environments of observations.
type provision struct {
	loader *kernel.Loader
	scope  lifecycle.Scope
	// tableBytes and sampleBytes bound the kernel's tables and an interval's samples, and
	// memoryBytes is the memory of which tables of sockets, connections and requests have their shares.
	tableBytes, sampleBytes, memoryBytes uint64
	// answered takes the requests that processes have answered; nil: it is not used.
	answered func(observe.Answer)
}

// startPlan starts an observation; its begin may be still to come.
func (e *Engine) startPlan(p observe.Plan, l provision) (*running, error) {
	starter, ok := p.(observe.Starter)
	if !ok {
		return nil, fmt.Errorf("starting %s: it has no start function", p.Kind())
	}
	started, err := starter.Start(e.environment(p.Kind(), l))
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Kind(), whatToDo(err))
	}
	o := &running{
		Observation: started.Observation, kind: p.Kind(), reportInterval: p.Shared().ReportInterval, begin: started.Begin, describe: started.Describe,
	}
	o.due(time.Now())
	return o, nil
}

// environment is what an observation of a kind is started with.
func (e *Engine) environment(kind observe.Kind, l provision) observe.Environment {
	env := observe.Environment{
		Host: host{subjects: e.subjects, scope: l.scope}, Loader: l.loader, Maps: e.sharedMaps(),
		SysRoot: e.sysRoot(), ProcRoot: e.procRoot(), Logger: e.logger,
		LimitBytes: e.config.MemoryBytes, TableBytes: l.tableBytes, SampleBytes: l.sampleBytes, SocketBytes: l.memoryBytes,
		MetricsByInstance: e.config.MetricsByInstance, ExponentialHistograms: e.config.ExponentialHistograms,
		Charge: e.work.run, ChargeBackground: e.afterLoop(&e.work), ChargeReducible: func(work func()) { e.chargeReducible(kind, work) },
		Decide: e.deciding(l.scope), Open: e.symbols.Open,
		Answered: l.answered, Degrade: e.degrade, Unavailable: e.unavailable,
	}
	if e.unwinding != nil {
		env.Settle = e.unwinding.settle
	}
	return env
}

// due has it drained and reported an interval from now.
func (o *running) due(now time.Time) {
	o.drainDue, o.reportDue = now.Add(o.DrainInterval()), now.Add(o.reportInterval)
}

// scopeOf is the bit of a kind that is configured.
func scopeOf(kind observe.Kind) lifecycle.Scope { return lifecycle.Scope(kinds.Named(kind).Scope) }

// targetKinds registers which processes each configured kind observes, before any process
// is decided about.
func (e *Engine) targetKinds() error {
	for _, plan := range e.config.configured() {
		matches, err := e.targeting(plan)
		if err != nil {
			return fmt.Errorf("starting %s: %w", plan.Kind(), err)
		}
		e.subjects.addKind(kindTargets{scope: scopeOf(plan.Kind()), stacks: takesStacks(plan), matches: matches})
	}
	return nil
}

// targeting returns which processes in scope a configured kind observes.
func (e *Engine) targeting(plan observe.Plan) (func(*model.Process) bool, error) {
	if isMonitors(plan) {
		return e.policies.watchesRequestsOf, nil
	}
	narrowed, err := e.table.Narrow(fmt.Sprintf("observe::%s::targets", plan.Kind()), plan.Shared().Targets)
	return func(p *model.Process) bool { return e.table.Matches(narrowed, p) }, err
}

// observe starts the configured kinds that take no samples, while those that sample run already:
// verifying the network's programs takes longer than everything else.
func (e *Engine) observe(loader *kernel.Loader) error {
	e.startKinds(loader, func(p observe.Plan) bool { return !samples(p) }, func(started *running) {
		if err := e.inLoop(func() error { return e.take(started) }); err != nil {
			e.lack(started.kind, errors.Join(err, started.Close()))
			return
		}
		e.announce(started)
	})
	if loader.Err() != nil {
		return nil
	}
	if err := e.noteMissing(); err != nil {
		return err
	}
	// Limits are kept to from now on: loading is done once.
	return e.inLoop(func() error { e.governor.begin(time.Now()); return nil })
}

// startKinds starts those configured kinds whose options match, and calls taken with each that has
// started. A kind that cannot run here does not prevent others from running. When loading is given up it returns.
func (e *Engine) startKinds(loader *kernel.Loader, match func(observe.Plan) bool, taken func(*running)) {
	for _, plan := range e.config.configured() {
		if loader.Err() != nil {
			return
		}
		if !match(plan) {
			continue
		}
		started, err := e.startPlan(plan, provision{
			loader: loader, scope: scopeOf(plan.Kind()), tableBytes: e.tableShare(), sampleBytes: e.intervalShare(), memoryBytes: e.socketMemory(),
			answered: e.answeredOf(plan),
		})
		switch {
		case errors.Is(err, kernel.ErrGivenUp):
		case err != nil:
			e.lack(plan.Kind(), err)
		default:
			taken(started)
		}
	}
}

// answeredOf is where a configured observation reports answered requests; nil where policies do not use its requests.
func (e *Engine) answeredOf(plan observe.Plan) func(observe.Answer) {
	if e.config.monitorsRequests() && (isMonitors(plan) || readsAllRequests(plan)) {
		return e.policies.answered
	}
	return nil
}

// missingKind is a configured kind that cannot run here.
type missingKind struct {
	kind observe.Kind
	why  error
}

// lack records that a kind cannot run here.
func (e *Engine) lack(kind observe.Kind, why error) {
	e.missing = append(e.missing, missingKind{kind, why})
	e.subjects.removeKind(scopeOf(kind))
}

// noteMissing reports which kinds cannot run here. It returns an error if none can.
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
		e.subjects.rescope(scopeOf(m.kind))
	}
	return nil
}

// noteLeftOut records that an observation has begun on only some of the CPUs.
func (e *Engine) noteLeftOut(started *running) {
	if p, ok := started.Observation.(observe.Partial); ok && p.LeftOut() != nil {
		e.noteCPUs(fmt.Errorf("%s: %w", started.kind, p.LeftOut()))
	}
}

// begin lets those kinds begin that wait until processes are followed.
func (e *Engine) begin() {
	e.running = slices.DeleteFunc(e.running, func(o *running) bool {
		if o.begin == nil {
			return false
		}
		if err := o.begin(discoverMax); err != nil {
			err = fmt.Errorf("starting %s: %w", o.kind, whatToDo(err))
			e.lack(o.kind, errors.Join(err, o.Close()))
			return true
		}
		o.due(time.Now())
		e.noteLeftOut(o)
		return false
	})
}

// tableShare is a kind's part of what the kernel's tables may take, intervalShare
// that of what samples may. Where tasks may run, they have half of both.
func (e *Engine) tableShare() uint64 {
	return e.config.MemoryBytes / mapShare / e.halves() / uint64(max(1, len(e.config.configured())))
}

func (e *Engine) intervalShare() uint64 {
	return e.config.MemoryBytes / sampleShare / e.halves() / uint64(max(1, e.config.countConfigured(samples)))
}

// socketMemory is what each of those kinds has shares of that remember sockets.
func (e *Engine) socketMemory() uint64 {
	return e.config.MemoryBytes / e.halves() / uint64(max(1, e.config.countConfigured(tracksSockets)))
}

// sharedSocketMemory is the memory for sockets of an observation that tasks share.
func (e *Engine) sharedSocketMemory(s *shared) uint64 {
	if !tracksSockets(s.plan) {
		return 0
	}
	return e.config.MemoryBytes / 2 * e.demand.assignSocketShare(s) / socketShares
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
