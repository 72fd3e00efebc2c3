// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// run drains and reports until the context ends.
func (e *Engine) run(ctx context.Context) {
	var cpus <-chan struct{}
	if e.hotPlug != nil {
		cpus = e.hotPlug.Events()
	}
	e.governor.begin(time.Now())
	e.openRing()
	e.announce()
	timer := time.NewTimer(time.Until(e.nextDue()))
	defer timer.Stop()
	defer close(e.looping)
	for {
		select {
		case <-ctx.Done():
			return
		case <-cpus:
			e.work.run(e.followCPUs)
		case call := <-e.calls:
			e.work.run(call)
			timer.Reset(time.Until(e.nextDue()))
		case <-timer.C:
			e.work.run(func() { e.tick(ctx, time.Now()) })
			timer.Reset(time.Until(e.nextDue()))
		}
	}
}

// announce says what runs from now on.
func (e *Engine) announce() {
	for _, o := range e.running {
		e.logger.Info(fmt.Sprintf("%s: %s, reports every %s", o.kind, o.starts, o.reportInterval),
			append([]zap.Field{kindField(o.kind), zap.Stringer("report_interval", o.reportInterval)}, o.fields...)...)
	}
}

// kindField says in a log line which kind of observation it is about.
func kindField(kind observe.Kind) zap.Field { return zap.String("kind", string(kind)) }

const (
	// idleTick is how often events of processes are read where nothing is drained, watchTick
	// where policies watch: who begins has to be known before his first second is over.
	idleTick  = time.Second
	watchTick = 200 * time.Millisecond
)

func (e *Engine) nextDue() time.Time {
	tick := idleTick
	if e.policies != nil {
		tick = watchTick
	}
	due := time.Now().Add(tick)
	for _, o := range e.running {
		if o.drainDue.Before(due) {
			due = o.drainDue
		}
	}
	return due
}

// tick does what is due: drains, and after a drain reports.
func (e *Engine) tick(ctx context.Context, now time.Time) {
	e.lookAtRing(now)
	// The ends of processes come without a wake-up; this is when they are read.
	if err := e.tracker.Flush(); err != nil {
		e.logger.Debug("Flushing process events", zap.Error(err))
	}
	// So are decisions about processes that have lived long enough to be read.
	if err := e.table.Settle(ctx); err != nil {
		return // the context ended
	}
	e.drain(now)
	e.keepToLimits(now)
	if !e.cpusDue.IsZero() && !e.cpusDue.After(now) {
		e.followCPUs()
	}
	for _, o := range e.running {
		if !o.reportDue.After(now) {
			e.report(o, now)
			o.reportDue = now.Add(o.reportInterval)
		}
	}
}

// drain drains what is due, and tells the subjects when all observations have been
// drained once more.
func (e *Engine) drain(now time.Time) {
	all := true
	for _, o := range e.running {
		if !o.drainDue.After(now) {
			e.charge(o, func() {
				if err := o.Drain(); err != nil {
					e.logger.Error("Reading what was observed", kindField(o.kind), zap.Error(err))
				}
			})
			e.narrate(o)
			e.lookAtTables(o, now)
			o.drainDue = now.Add(o.DrainInterval())
			o.drained = true
		}
		all = all && o.drained
	}
	if !all {
		return
	}
	for _, o := range e.running {
		o.drained = false
	}
	e.subjects.drained()
}

// charge does work that is charged already, and notes it as that of samples where it is.
func (e *Engine) charge(o *running, work func()) {
	if sampling(o.kind) {
		e.sampled.run(work)
	} else {
		work()
	}
}

// narrate hands over what has happened since the last drain.
func (e *Engine) narrate(o *running) {
	if narrator, ok := o.Observation.(observe.Narrator); ok {
		logs, spans := o.tasks.logs(narrator.Logs()), o.tasks.spans(narrator.Spans())
		e.tell(logs)
		if e.hooks.Spans != nil && len(spans) > 0 {
			e.hooks.Spans(spans)
		}
	}
}

func (e *Engine) tell(logs []*model.Logs) {
	if e.hooks.Logs != nil && len(logs) > 0 {
		e.hooks.Logs(logs)
	}
}

func (e *Engine) report(o *running, now time.Time) {
	var found model.Findings
	e.charge(o, func() { found = o.tasks.label(o.Report(now)) })
	if e.hooks.Profiles != nil && len(found.Profiles) > 0 {
		e.hooks.Profiles(found.Profiles)
	}
	if e.hooks.Metrics != nil && len(found.Metrics) > 0 {
		e.hooks.Metrics(found.Metrics)
	}
	e.tell(found.Logs)
}

// keepToLimits makes all observations cheaper or dearer when the governor says
// so. What was seen before is reported first: a profile has one period.
func (e *Engine) keepToLimits(now time.Time) {
	changed, cause := e.governor.observe(now, e.cost(), e.memory())
	e.mu.Lock()
	e.noteFailing(exceededCPU, "The limit of CPU time is exceeded", e.governor.exceeded())
	e.mu.Unlock()
	if !changed {
		return
	}
	level := e.governor.level
	for _, o := range e.running {
		e.report(o, now)
		if err := o.SetLevel(level); err != nil {
			e.logger.Error("Changing the sampling period", kindField(o.kind), zap.Error(err))
		}
	}
	e.level.Store(int32(level))
	e.hooks.Level(level, cause)
}

// followCPUs is called when CPUs came or went, and again an interval of the scan
// after it failed.
func (e *Engine) followCPUs() {
	if watch := e.mappings.Load(); watch != nil {
		e.followCPUsMappings(watch)
	}
	var errs []error
	for _, o := range e.running {
		if err := o.CPUsChanged(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.kind, err))
		}
	}
	e.noteCPUs(errors.Join(errs...))
}

// noteCPUs remembers whether some CPUs are not observed, and when to try again.
func (e *Engine) noteCPUs(err error) {
	e.cpusDue = time.Time{}
	if err != nil {
		e.cpusDue = time.Now().Add(e.config.ScanInterval)
		err = whatToDo(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.noteFailing(failingCPUs, "Some CPUs are not observed; tried again at the next scan", err)
}

// watchProcesses scans /proc at once and then at each interval: what no event
// told is found there.
func (e *Engine) watchProcesses(ctx context.Context) {
	interval := time.NewTicker(e.config.ScanInterval)
	defer interval.Stop()
	for {
		e.work.run(func() { e.scan(ctx) })
		select {
		case <-ctx.Done():
			return
		case <-interval.C:
		}
	}
}

func (e *Engine) scan(ctx context.Context) {
	if _, err := e.table.Scan(ctx); err != nil && ctx.Err() == nil {
		e.logger.Warn("Scanning the processes", zap.Error(err))
		return
	}
	if e.policies != nil {
		e.policies.scanned()
	}
	if err := e.subjects.sweep(); err != nil {
		e.logger.Warn("Scanning the processes", zap.Error(err))
	}
}

// cost is the CPU time that the engine and its programs have used.
func (e *Engine) cost() cost {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readPrograms()
	used := cost{running: e.work.total(), sampling: e.sampled.total(), once: e.once.total()}
	for name, p := range e.last.programs {
		used.running += p.Time
		if kind, _, ok := strings.Cut(name, "."); ok && sampling(observe.Kind(kind)) {
			used.sampling += p.Time
		}
	}
	return used
}

// memory is what the engine holds, kernel maps included.
func (e *Engine) memory() uint64 {
	maps, symbols := e.mapBytes(), e.symbols.Stats()
	if e.policies != nil {
		maps += e.policies.bytes()
	}
	return maps + e.table.Bytes() + e.sampleBytes() + uint64(symbols.TableBytes+symbols.FrameBytes+symbols.OtherBytes)
}

// sampleBytes is the memory of samples that were not delivered yet.
func (e *Engine) sampleBytes() uint64 {
	var bytes uint64
	if e.hooks.Held != nil {
		bytes = e.hooks.Held()
	}
	for _, o := range e.running {
		bytes += o.HeldBytes()
	}
	return bytes
}

func (e *Engine) mapBytes() uint64 {
	bytes := e.tracker.MapBytes()
	if e.unwinding != nil {
		bytes += e.unwinding.store.Stats().Bytes
	}
	for _, o := range e.running {
		bytes += o.MapBytes()
	}
	return bytes
}
