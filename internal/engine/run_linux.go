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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/kinds"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// run drains and reports until the context ends.
func (e *Engine) run(ctx context.Context) {
	var cpus <-chan struct{}
	if e.hotPlug != nil {
		cpus = e.hotPlug.Events()
	}
	e.openRing()
	for _, o := range e.running {
		e.announce(o)
	}
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
		case <-e.waiting.due():
			e.iterate(func() { e.handOverDue(time.Now()) })
		case <-e.waiting.settled:
			e.iterate(e.handOver)
		case <-timer.C:
			e.iterate(func() { e.tick(ctx, time.Now()) })
			timer.Reset(time.Until(e.nextDue()))
		}
	}
}

// iterate does and charges work of the loop that background work waits for.
func (e *Engine) iterate(work func()) { e.work.run(func() { e.loop.first(work) }) }

// announce logs what an observation does from now on.
func (e *Engine) announce(o *running) { e.logStart(o, "") }

// logStart logs what an observation does from now on, and what for.
func (e *Engine) logStart(o *running, purpose string) {
	action, fields := o.describe()
	e.logger.Info(fmt.Sprintf("%s%s: %s, reports every %s", o.kind, purpose, action, o.reportInterval),
		append([]zap.Field{kindField(o.kind), zap.Stringer("report_interval", o.reportInterval)}, fields...)...)
}

// kindField is the field of log lines that names the kind of observation.
func kindField(kind observe.Kind) zap.Field { return zap.String("kind", string(kind)) }

const (
	// idleTick is how often events of processes are read where nothing is drained, watchTick
	// where policies watch: a new process has to be known before its first second is over.
	idleTick  = time.Second
	watchTick = 200 * time.Millisecond
	// mapsPerDrain is the time on the clock for which one drain may read memory maps of processes. On a host with idle CPUs it takes
	// milliseconds.
	mapsPerDrain = 500 * time.Millisecond
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
	e.sampleRing(now)
	// The ends of processes come without a wake-up; this is when they are read.
	if err := e.tracker.Flush(); err != nil {
		e.logger.Debug("Flushing process events", zap.Error(err))
	}
	// So are decisions about processes that have lived long enough to be read.
	if err := e.table.Settle(ctx); err != nil {
		return // the context ended
	}
	e.symbols.ReadMapsUntil(time.Now().Add(mapsPerDrain))
	e.drain(now)
	e.symbols.ReadMapsUntil(time.Time{})
	e.keepToLimits(now)
	if !e.cpusDue.IsZero() && !e.cpusDue.After(now) {
		e.followCPUs()
	}
	for _, o := range e.running {
		if !o.reportDue.After(now) {
			e.handOverSoon(e.reportRest(o, now))
			o.reportDue = now.Add(o.reportInterval)
		}
	}
}

// drain drains what is due, and calls [subjects.drained] when all observations have been
// drained once more.
func (e *Engine) drain(now time.Time) {
	all := true
	for _, o := range e.running {
		// What has a report due is drained for it, so that reports are an interval apart.
		if !o.drainDue.After(now) || sampling(o.kind) && !o.reportDue.After(now) {
			e.charge(o, func() {
				if err := o.Drain(); err != nil {
					e.logger.Error("Reading what was observed", kindField(o.kind), zap.Error(err))
				}
			})
			e.narrate(o)
			e.recordFill(o, now)
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

// newSpent are meters for the work that steps of a kind reduce: for samples all drains and reports, for others what they charge as reducible.
func newSpent() map[observe.Kind]*meter {
	spent := map[observe.Kind]*meter{}
	for _, kind := range kinds.Configurable() {
		spent[kind.Name] = &meter{}
	}
	return spent
}

// charge does work that is charged already, and notes it as that of samples where it is.
func (e *Engine) charge(o *running, work func()) {
	if sampling(o.kind) {
		e.spent[o.kind].run(work)
	} else {
		work()
	}
}

// chargeReducible charges work of a kind that its level reduces.
func (e *Engine) chargeReducible(kind observe.Kind, work func()) {
	e.work.run(func() { e.spent[kind].run(work) })
}

// narrate exports the events and spans since the last drain.
func (e *Engine) narrate(o *running) {
	if narrator, ok := o.Observation.(observe.Narrator); ok {
		logs, spans := o.tasks.logs(narrator.Logs()), o.tasks.spans(narrator.Spans())
		e.exportLogs(logs)
		if e.hooks.Spans != nil && len(spans) > 0 {
			e.hooks.Spans(spans)
		}
	}
}

func (e *Engine) exportLogs(logs []*model.Logs) {
	if e.hooks.Logs != nil && len(logs) > 0 {
		e.hooks.Logs(logs)
	}
}

// report hands over what an observation has found since its last report.
func (e *Engine) report(o *running, now time.Time) {
	e.handOver() // profiles of before
	e.waiting.add(e.reportRest(o, now), time.Now())
	e.handOver()
}

// reportRest hands over all that an observation has found but profiles, which it returns.
func (e *Engine) reportRest(o *running, now time.Time) []*model.Profile {
	var found model.Findings
	e.charge(o, func() { found = o.tasks.label(o.Report(now)) })
	if level := e.limitLevel(o.kind, now); level != nil {
		found.Metrics = append(found.Metrics, level)
	}
	if e.hooks.Metrics != nil && len(found.Metrics) > 0 {
		e.hooks.Metrics(found.Metrics)
	}
	e.exportLogs(found.Logs)
	return found.Profiles
}

// keepToLimits changes the level of a kind when the governor decides so. Samples of before are reported first: a profile has one period.
// Other kinds must not report in between: series that are not used from one report to the next are evicted.
func (e *Engine) keepToLimits(now time.Time) {
	decided := e.governor.observe(now, e.cost(), e.memory())
	e.mu.Lock()
	e.noteFailing(exceededCPU, "The limit of CPU time is exceeded", e.governor.exceeded())
	e.noteFailing(crowdedSymbols, "Some functions are exported without their names", e.symbolPressure.observe(now, e.symbolCounts()))
	e.mu.Unlock()
	if decided == nil {
		return
	}
	changed := LevelChange{Kind: string(decided.kind), Level: decided.level, Cause: decided.cause}
	for _, o := range e.running {
		if o.kind != decided.kind {
			continue
		}
		if sampling(o.kind) {
			e.report(o, now)
		}
		reducer, ok := o.Observation.(observe.Reducer)
		if !ok {
			continue
		}
		if err := reducer.SetLevel(decided.level); err != nil {
			e.logger.Error("Changing how much is observed", kindField(o.kind), zap.Int("level", decided.level), zap.Error(err))
		}
		changed.Effect = reducer.Effect()
	}
	e.levels.Store(decided.kind, decided.level)
	e.hooks.Level(changed)
}

// symbolCounts reads the counts that show whether names are missing.
func (e *Engine) symbolCounts() symbolCounts {
	s := e.symbols.Stats()
	c := symbolCounts{rebuilt: s.TablesRebuilt, passes: s.PartialPasses, late: s.Unnamed[reason.NameOverBudget], frames: s.Named}
	for _, n := range s.Unnamed {
		c.frames += n
	}
	return c
}

// followCPUs is called when CPUs came or went, and again an interval of the scan
// after it failed.
func (e *Engine) followCPUs() {
	if watch := e.mappings.Load(); watch != nil {
		e.followCPUsMappings(watch)
	}
	var errs []error
	for _, o := range e.running {
		follower, ok := o.Observation.(observe.CPUFollower)
		if !ok {
			continue
		}
		if err := follower.CPUsChanged(); err != nil {
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

// watchProcesses scans /proc at once and then at each interval: it finds what no event
// has reported.
func (e *Engine) watchProcesses(ctx context.Context) {
	interval := time.NewTicker(e.config.ScanInterval)
	defer interval.Stop()
	for {
		e.loop.yield()
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

// cost is what the engine and its programs have used, and use now.
func (e *Engine) cost() cost {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readPrograms()
	used := cost{running: e.work.total(), once: e.once.total(), kinds: map[observe.Kind]part{}}
	for kind, meter := range e.spent {
		used.kinds[kind] = part{cpu: meter.total()}
	}
	programs := map[observe.Kind]time.Duration{}
	for name, p := range e.last.programs {
		used.running += p.Time
		if kind, _, ok := strings.Cut(name, "."); ok {
			programs[observe.Kind(kind)] += p.Time
		}
	}
	for kind, p := range used.kinds {
		used.kinds[kind] = part{cpu: p.cpu + reducible(kind, programs[kind], p.cpu)}
	}
	for _, o := range e.running {
		if p, ok := used.kinds[o.kind]; ok {
			p.memory += o.HeldBytes()
			p.levels = max(p.levels, levelsOf(o))
			used.kinds[o.kind] = p
		}
	}
	return used
}

// reducible is the part of a kind's run time in the kernel that steps reduce: of samples all of it. The programs of network run for each
// transfer, captured or not. What they take for those that are captured is not known, and is taken to be no more than user space takes.
func reducible(kind observe.Kind, programs, user time.Duration) time.Duration {
	if sampling(kind) {
		return programs
	}
	return min(programs, user)
}

// memory is what the engine holds, kernel maps included.
func (e *Engine) memory() uint64 {
	maps, symbols := e.mapBytes(), e.symbols.Stats()
	if e.policies != nil {
		maps += e.policies.bytes()
	}
	if e.unwinding != nil {
		maps += e.unwinding.buildingBytes()
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

// levelsOf is the number of steps by which an observation can be reduced.
func levelsOf(o *running) int {
	if reducer, ok := o.Observation.(observe.Reducer); ok {
		return reducer.Levels()
	}
	return 0
}
