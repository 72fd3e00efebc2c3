// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

const (
	// trackedProcesses bounds the map of scopes; some 90 bytes each in the kernel.
	trackedProcesses = 32768
	// symbolShare is the part of the memory limit that symbols may take, unwindShare
	// that of unwind tables, mapShare that of the kernel's tables of samples and
	// sampleShare that of an interval's samples, of all kinds together.
	symbolShare, unwindShare, mapShare, sampleShare = 4, 4, 8, 8
)

// lastLines is how long the last report waits for names and lines that are being read.
const lastLines = 500 * time.Millisecond

// Engine runs observations for one receiver.
type Engine struct {
	config Config
	hooks  Hooks
	logger *zap.Logger

	runStats io.Closer
	tracker  *lifecycle.Tracker
	hotPlug  *kernel.HotPlug
	table    *process.Table
	symbols  *symbol.Symbolizer
	// unwinding is nil where no observation takes user stacks, mappings where none needs to know
	// which processes map code.
	unwinding *unwinding
	prefetch  prefetcher
	mappings  atomic.Pointer[kernel.MappingWatch]
	subjects  *subjects
	// running is changed by one goroutine alone, that of run once it is there, with the lock.
	running   []*running
	followers atomic.Pointer[[]observe.Follower] // of running
	missing   []missingKind
	// policies is nil where there are none.
	policies       *policies
	governor       governor
	symbolPressure symbolPressure
	// degraded has a lock of its own: observations that are ended under the other one may still
	// report a degradation.
	degraded   map[string]string
	degradedMu sync.Mutex
	// waiting are profiles that wait for names; they belong to the goroutine of run, and to Shutdown once it has ended.
	waiting waitingProfiles
	// cpusDue is when to follow the CPUs again after it failed; zero while all is well.
	cpusDue time.Time

	// calls are for the goroutine of run, until looping is closed.
	calls   chan func()
	looping chan struct{}
	demand  demand
	// loader returns what loads programs until the context of Start is done.
	loader func() *kernel.Loader

	// pending are the events of processes that were not read yet.
	pending pending

	work meter
	// loop gives iterations of run precedence over background work.
	loop precedence
	// once is work that is done once for each binary: its unwind table.
	once meter
	// spent are the parts of work that kinds can reduce, see [newSpent]; levels are those of the kinds that were
	// ever reduced, for any goroutine.
	spent  map[observe.Kind]*meter
	levels sync.Map

	mu       sync.Mutex // all below, and reading what release frees
	released bool
	last     lastRead
	past     past

	stop  context.CancelFunc
	ended sync.WaitGroup
}

// running is one observation that runs.
type running struct {
	observe.Observation
	kind           observe.Kind
	reportInterval time.Duration
	drainDue       time.Time
	reportDue      time.Time
	// drained: it was drained since [subjects.drained] was called last.
	drained bool
	// begin lets it begin, once processes are followed; nil where it runs already.
	// It waits for at most discover until the running processes have been found.
	begin func(discover time.Duration) error
	// tasks are those that share it; nil where it is configured.
	tasks *shared
	costs []observe.ProgramCost // as they were read last
	// describe returns what it does for the log, see [observe.Started].
	describe func() (string, []zap.Field)
}

// Start starts the configured observations. With no observation nothing is
// attached. The error says what is missing and what to do.
//
// Loading takes seconds, and a minute on a busy host. When ctx is done it is given up, then and later: Start returns an engine that observes what had
// begun by then, for Shutdown to report, or an error where nothing had. What runs goes on until Shutdown.
func Start(ctx context.Context, config Config, hooks Hooks, logger *zap.Logger) (_ *Engine, err error) {
	e := &Engine{
		config: config, hooks: hooks, logger: logger,
		governor:       governor{cpuPercent: config.CPUPercent, memoryBytes: config.MemoryBytes, window: config.window},
		symbolPressure: symbolPressure{memoryBytes: config.MemoryBytes / symbolShare},
		degraded:       map[string]string{}, past: newPast(), spent: newSpent(),
		stop:  func() {},
		calls: make(chan func()), looping: make(chan struct{}),
	}
	e.loader = func() *kernel.Loader {
		loader := kernel.NewLoader().Until(ctx, e.work.run)
		loader.SysRoot = e.sysRoot()
		return loader
	}
	if !config.Observes() {
		return e, nil
	}
	if err := e.checkHost(); err != nil {
		return nil, whatToDo(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.release())
		}
	}()
	loader := e.loader()
	var startErr error
	e.work.run(func() { startErr = e.prepare(loader) })
	if startErr != nil {
		return nil, whatToDo(startErr)
	}
	running, cancel := context.WithCancel(context.Background())
	e.stop = cancel
	e.launch(running)
	e.work.run(e.begin)
	e.noteFollowers()
	e.ended.Go(func() { e.run(running) })
	e.work.run(func() { startErr = e.observe(loader) })
	if startErr != nil {
		return nil, errors.Join(startErr, e.end())
	}
	return e, nil
}

// prepare creates the parts of the engine from the bottom up.
func (e *Engine) prepare(loader *kernel.Loader) error {
	var err error
	if e.runStats, err = kernel.EnableRunStats(); err != nil {
		e.degrade("run_time_statistics", err)
	}
	if e.tracker, err = lifecycle.Start(loader, trackedProcesses); err != nil {
		return err
	}
	if why := e.tracker.Degraded(); why != nil {
		e.degrade("process.exec", why)
	}
	if e.symbols, err = symbol.New(symbol.Config{
		RootPath:    e.config.RootPath,
		MemoryBytes: int64(e.config.MemoryBytes / symbolShare),
		Logger:      e.logger,
		Warned:      e.config.Warned,
		DebugInfo:   e.config.Symbols.DebugInfo,
		Charge:      e.background(backgroundAtOnce),
		Names:       e.background(backgroundAtOnce),
		LargeNames:  e.background(backgroundAtOnce),
		Contents:    e.background(backgroundAtOnce),
		MapsShare:   backgroundShare * e.config.CPUPercent / 100,
		CacheDir:    e.config.Symbols.CacheDir,
		CacheBytes:  e.config.Symbols.CacheBytes,
		Debuginfod:  e.config.Symbols.Debuginfod,
	}); err != nil {
		return fmt.Errorf("preparing the symbolizer: %w", err)
	}
	if err := e.prepareProcesses(); err != nil {
		return err
	}
	if e.config.OnDemand || e.config.anyConfigured(takesStacks) {
		if err := e.startUnwinding(); err != nil {
			return err
		}
	}
	if e.config.anyConfigured(followsMappings) {
		if err := e.startMappings(); err != nil {
			return err
		}
	}
	if err := e.startPolicies(loader); err != nil {
		return err
	}
	if err := e.targetKinds(); err != nil {
		return err
	}
	e.startKinds(loader, samples, func(started *running) {
		e.running = append(e.running, started)
		e.noteLeftOut(started)
	})
	if e.hotPlug, err = kernel.WatchHotPlug(); err != nil {
		e.degrade("cpu_hotplug", err)
	}
	return loader.Err()
}

// afterLoop returns a function that charges background work, which waits for the loop.
func (e *Engine) afterLoop(m *meter) func(work func()) {
	return func(work func()) {
		e.loop.yield()
		m.run(work)
	}
}

// background returns a function that charges one kind of work that can wait, and paces it. The share of atOnce may be spent without a pause.
func (e *Engine) background(atOnce time.Duration) func(piece func()) time.Duration {
	a := newAllowance(e.config.CPUPercent, atOnce, time.Now())
	return func(piece func()) time.Duration {
		e.loop.yield()
		return a.spend(time.Now(), e.once.measure(piece))
	}
}

func (e *Engine) prepareProcesses() error {
	self, err := process.SelfPID(e.config.RootPath)
	if err != nil {
		return err
	}
	e.subjects = &subjects{
		tracker: e.tracker, symbols: e.symbols, boot: kernel.BootTime, logger: e.logger,
		known:     map[observe.SubjectKey]*subject{},
		byProcess: map[model.ProcessID][]observe.SubjectKey{},
	}
	e.pending.flush = e.tracker.Flush
	e.subjects.catchUp = e.pending.catchUp
	e.table, err = process.New(process.Config{
		RootPath: e.config.RootPath,
		Include:  e.config.Include,
		Exclude:  e.config.Exclude,
		SelfPID:  self,
		Logger:   e.logger,
		Warned:   e.config.Warned,
		OnChange: e.changed,
	})
	if err != nil {
		return fmt.Errorf("preparing the process table: %w", err)
	}
	e.subjects.table = e.table
	// The idle task belongs to no process; perf's cycle counter would count it.
	const idle = 0
	return errors.Join(e.tracker.Decide(self, lifecycle.ScopeNone), e.tracker.Decide(idle, lifecycle.ScopeNone))
}

// launch starts the goroutines that discover processes.
func (e *Engine) launch(ctx context.Context) {
	e.noteFollowers()
	e.ended.Go(e.readEvents)
	e.ended.Go(func() { e.watchProcesses(ctx) })
	if e.unwinding != nil {
		e.ended.Go(func() { e.unwinding.run(ctx, e.afterLoop(&e.once)) })
		e.ended.Go(func() { e.unwinding.runLarge(ctx, e.background(unwindAtOnce)) })
	}
	if watch := e.mappings.Load(); watch != nil {
		e.ended.Go(func() { e.followMappings(watch) })
	}
	if e.policies != nil {
		e.policies.launch(ctx, &e.ended)
	}
}

// end stops the goroutines.
func (e *Engine) end() error {
	e.stop()
	if e.unwinding != nil {
		e.unwinding.stopping.Store(true)
	}
	var errs []error
	if e.tracker != nil {
		errs = append(errs, e.tracker.StopReading())
	}
	if watch := e.mappings.Load(); watch != nil {
		errs = append(errs, watch.Stop())
	}
	e.ended.Wait()
	return errors.Join(errs...)
}

// Shutdown stops sampling, reports what was seen since the last report and frees
// everything. It returns when nothing is left.
func (e *Engine) Shutdown() error {
	e.demand.close()
	errs := []error{e.end()}
	now := time.Now()
	e.iterate(func() {
		for _, o := range e.running {
			if stopper, ok := o.Observation.(observe.Stopper); ok {
				errs = append(errs, stopper.Stop())
			}
			errs = append(errs, o.Drain())
			e.narrate(o)
		}
	})
	if e.symbols != nil {
		e.symbols.AwaitLines(lastLines)
	}
	e.iterate(func() {
		e.handOver()
		for _, o := range e.running {
			e.report(o, now)
			e.narrate(o) // what had to wait for the report
		}
	})
	return errors.Join(append(errs, e.release())...)
}

// release frees what was prepared, in reverse order.
func (e *Engine) release() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readLast()
	e.released = true
	errs := []error{e.last.ring.close()}
	if e.hotPlug != nil {
		errs = append(errs, e.hotPlug.Close())
	}
	for _, o := range e.running {
		errs = append(errs, o.Close())
	}
	if e.policies != nil {
		errs = append(errs, e.policies.close())
	}
	if e.subjects != nil {
		e.subjects.close()
	}
	if e.table != nil {
		e.table.Close()
	}
	if watch := e.mappings.Load(); watch != nil {
		errs = append(errs, watch.Close())
	}
	if e.unwinding != nil {
		errs = append(errs, e.unwinding.close())
	}
	if e.symbols != nil {
		errs = append(errs, e.symbols.Close())
	}
	if e.tracker != nil {
		errs = append(errs, e.tracker.Close())
	}
	if e.runStats != nil {
		errs = append(errs, e.runStats.Close())
	}
	return errors.Join(errs...)
}

// Charge adds the CPU time of work done on the engine's behalf to its cost.
func (e *Engine) Charge(work func()) { e.work.run(work) }

// readEvents handles the events of processes' lives until the reader is closed.
func (e *Engine) readEvents() {
	for {
		event, err := e.tracker.Read()
		switch {
		case errors.Is(err, lifecycle.ErrFlushed):
			e.pending.read()
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil:
			e.logger.Error("Reading process events", zap.Error(err))
			return
		default:
			e.work.run(func() { e.handle(event) })
		}
	}
}

func (e *Engine) handle(event lifecycle.Event) {
	id := model.ProcessID{PID: event.PID, StartTicks: model.StartTicks(event.StartBoottime)}
	switch event.Type {
	case lifecycle.Fork:
		e.table.Fork(event.ParentPID, id, event.ExecID)
	case lifecycle.Exec:
		e.table.Exec(id, process.Execution{
			Comm: event.Comm, ExecID: event.ExecID, Executable: event.Executable, Arguments: event.Arguments, ArgumentsCut: event.ArgumentsCut,
			Environment: event.Environment, EnvironmentWhole: event.EnvironmentWhole,
		})
		e.subjects.ended(id, func(key observe.SubjectKey) bool { return key.ExecID == event.ExecID })
		if e.unwinding != nil && e.mappings.Load() != nil {
			e.prefetch.onExec(e.subjects, subjectOf(event), event.Comm)
		}
		e.over(id, event.ExecID)
	case lifecycle.Exit:
		e.table.Exit(id)
		e.subjects.ended(id, func(observe.SubjectKey) bool { return false })
		e.over(id, math.MaxUint32)
	case lifecycle.Ask:
		e.subjects.handleAsk(subjectOf(event), event.Comm)
	}
}

func subjectOf(event lifecycle.Event) observe.SubjectKey {
	return observe.SubjectKey{PID: event.PID, StartBoottime: event.StartBoottime, ExecID: event.ExecID}
}

func (e *Engine) sysRoot() string  { return filepath.Join(e.config.RootPath, "sys") }
func (e *Engine) procRoot() string { return filepath.Join(e.config.RootPath, "proc") }
