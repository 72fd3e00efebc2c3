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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

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

// lastLines is how long the last report waits for lines that are being read.
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
	// unwinding is nil where no observation takes user stacks, mappings where none asks
	// who maps code.
	unwinding *unwinding
	foresight foresight
	mappings  atomic.Pointer[kernel.MappingWatch]
	subjects  *subjects
	// running is changed by one goroutine alone, that of run once it is there, with the lock.
	running   []*running
	followers atomic.Pointer[[]observe.Follower] // of running
	missing   []missingKind
	// policies is nil where there are none.
	policies *policies
	governor governor
	// degraded has a lock of its own: observations that are ended under the other one may still
	// have something to say.
	degraded   map[string]string
	degradedMu sync.Mutex
	// cpusDue is when to follow the CPUs again after it failed; zero while all is well.
	cpusDue time.Time

	// calls are for the goroutine of run, until looping is closed.
	calls   chan func()
	looping chan struct{}
	demand  demand

	work meter
	// once is work that is done once for each binary: its unwind table.
	once meter
	// sampled is the part of work that grows with the number of samples.
	sampled meter
	level   atomic.Int32

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
	// drained says that it was drained since the subjects were told last.
	drained bool
	// begin lets it begin, once there is somebody who follows processes; nil where it runs already.
	// It waits no longer than meet for who runs now to be met.
	begin func(meet time.Duration) error
	// tasks are those that share it; nil where the configuration asks for it.
	tasks *shared
	costs []observe.ProgramCost // as they were read last
	// starts is the log line that says what it does, with its fields.
	starts string
	fields []zap.Field
}

// Start starts what the configuration asks for. With no observation nothing is
// attached. The error says what is missing and what to do.
func Start(config Config, hooks Hooks, logger *zap.Logger) (_ *Engine, err error) {
	e := &Engine{
		config: config, hooks: hooks, logger: logger,
		governor: governor{cpuPercent: config.CPUPercent, memoryBytes: config.MemoryBytes, window: config.window},
		degraded: map[string]string{}, past: newPast(),
		stop:  func() {},
		calls: make(chan func()), looping: make(chan struct{}),
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
	loader := kernel.NewLoader()
	var startErr error
	e.work.run(func() { startErr = e.prepare(loader) })
	if startErr != nil {
		return nil, whatToDo(startErr)
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.stop = cancel
	e.launch(ctx)
	e.work.run(func() { startErr = e.observe(loader) })
	if startErr != nil {
		return nil, errors.Join(startErr, e.end())
	}
	e.ended.Go(func() { e.run(ctx) })
	return e, nil
}

// whatToDo adds to an error what its reader can do about it, unless it says so already.
func whatToDo(err error) error {
	// The text of EMFILE is a part of that of ENFILE: the latter is looked for first.
	for _, limit := range []struct {
		reached unix.Errno
		advice  string
	}{
		{unix.ENFILE, "raise the host's limit of open files (sysctl fs.file-max)"},
		{unix.EMFILE, "raise the limit of open files (ulimit -n, or LimitNOFILE of systemd)"},
	} {
		switch {
		case !isErrno(err, limit.reached):
			continue
		case strings.Contains(err.Error(), limit.advice):
			return err
		}
		return fmt.Errorf("%w; %s", err, limit.advice)
	}
	return err
}

// isErrno looks at the text, too: the library that loads programs does not wrap all
// that the kernel answers.
func isErrno(err error, errno unix.Errno) bool {
	return errors.Is(err, errno) || strings.Contains(err.Error(), errno.Error())
}

// checkHost finds out what is missing before anything is loaded.
func (e *Engine) checkHost() error {
	missing, err := kernel.MissingCapabilities(kernel.CapBPF, kernel.CapPerfmon)
	if err != nil {
		return err
	}
	wanted, err := kernel.MissingCapabilities(e.config.capabilities()...)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return &kernel.MissingCapabilityError{Missing: append(missing, wanted...)}
	}
	if len(wanted) > 0 {
		e.degrade("capabilities", &kernel.MissingCapabilityError{Missing: wanted})
	}
	return process.CheckPIDNamespace(e.config.RootPath)
}

// capabilities are those that are of use beyond the two that are needed. CAP_SYS_ADMIN
// is asked for where it is missed.
func (c Config) capabilities() []kernel.Capability {
	list := []kernel.Capability{kernel.CapSysPtrace, kernel.CapDACReadSearch, kernel.CapSyslog, kernel.CapCheckpointRestore}
	if c.Network != nil && c.Network.ResolveNAT {
		list = append(list, kernel.CapNetAdmin)
	}
	return list
}

// degrade notes that something is less than it could be, and logs it unless that was said
// before.
func (e *Engine) degrade(what string, why error) {
	e.degradedMu.Lock()
	said := e.degraded[what] == why.Error()
	e.degraded[what] = why.Error()
	e.degradedMu.Unlock()
	if said {
		return
	}
	e.logger.Warn("The receiver works with less", zap.String("capability", what), zap.Error(why))
}

// prepare builds the rooms from the bottom up.
func (e *Engine) prepare(loader *kernel.Loader) error {
	var err error
	if e.runStats, err = kernel.EnableRunStats(); err != nil {
		e.degrade("run_time_statistics", err)
	}
	if e.tracker, err = lifecycle.Start(loader, trackedProcesses); err != nil {
		return err
	}
	beside := newAllowance(e.config.CPUPercent, time.Now())
	if e.symbols, err = symbol.New(symbol.Config{
		RootPath:    e.config.RootPath,
		MemoryBytes: int64(e.config.MemoryBytes / symbolShare),
		Logger:      e.logger,
		DebugInfo:   e.config.Symbols.DebugInfo,
		Charge:      func(piece func()) time.Duration { return beside.spend(time.Now(), e.once.measure(piece)) },
		CacheDir:    e.config.Symbols.CacheDir,
		CacheBytes:  e.config.Symbols.CacheBytes,
		Debuginfod:  e.config.Symbols.Debuginfod,
	}); err != nil {
		return fmt.Errorf("preparing the symbolizer: %w", err)
	}
	if err := e.prepareProcesses(); err != nil {
		return err
	}
	if e.config.OnDemand || e.config.anyAsked(Options.takesStacks) {
		if err := e.startUnwinding(); err != nil {
			return err
		}
	}
	if e.config.anyAsked(Options.followsMappings) {
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
	e.startKinds(loader, samples)
	if e.hotPlug, err = kernel.WatchHotPlug(); err != nil {
		e.degrade("cpu_hotplug", err)
	}
	return nil
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
	e.table, err = process.New(process.Config{
		RootPath: e.config.RootPath,
		Include:  e.config.Include,
		Exclude:  e.config.Exclude,
		SelfPID:  self,
		Logger:   e.logger,
		OnChange: e.changed,
	})
	if err != nil {
		return fmt.Errorf("preparing the process table: %w", err)
	}
	e.subjects.table = e.table
	// The idle task is nobody's; perf's cycle counter would count it.
	const idle = 0
	return errors.Join(e.tracker.Decide(self, lifecycle.ScopeNone), e.tracker.Decide(idle, lifecycle.ScopeNone))
}

// launch starts the goroutines that find out who is there.
func (e *Engine) launch(ctx context.Context) {
	e.noteFollowers()
	e.ended.Go(e.readEvents)
	e.ended.Go(func() { e.watchProcesses(ctx) })
	if e.unwinding != nil {
		e.ended.Go(func() { e.unwinding.run(ctx, e.once.run) })
		e.ended.Go(func() { e.unwinding.runLarge(ctx, e.once.run) })
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
	e.work.run(func() {
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
	e.work.run(func() {
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
		e.table.Fork(event.ParentPID, id)
	case lifecycle.Exec:
		e.table.Exec(id, event.Comm)
		e.subjects.ended(id, func(key observe.SubjectKey) bool { return key.ExecID == event.ExecID })
		if e.unwinding != nil && e.mappings.Load() != nil {
			e.foresight.execed(e.subjects, subjectOf(event), event.Comm)
		}
		e.over(id, event.ExecID)
	case lifecycle.Exit:
		e.table.Exit(id)
		e.subjects.ended(id, func(observe.SubjectKey) bool { return false })
		e.over(id, math.MaxUint32)
	case lifecycle.Ask:
		e.subjects.asked(subjectOf(event), event.Comm)
	}
}

func subjectOf(event lifecycle.Event) observe.SubjectKey {
	return observe.SubjectKey{PID: event.PID, StartBoottime: event.StartBoottime, ExecID: event.ExecID}
}

func (e *Engine) sysRoot() string  { return filepath.Join(e.config.RootPath, "sys") }
func (e *Engine) procRoot() string { return filepath.Join(e.config.RootPath, "proc") }
