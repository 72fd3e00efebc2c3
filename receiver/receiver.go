// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/cgroup"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// runner is the engine, or what stands for it on other platforms.
type runner interface {
	// Shutdown delivers what was seen so far and frees everything.
	Shutdown() error
	Stats() engine.Stats
	// Windows are what policies have seen; nil where there are none. It is called after Shutdown.
	Windows() *engine.Windows
	// RestoreSilence restores that a policy started a run for a process before this engine
	// existed.
	RestoreSilence(policy string, id model.ProcessID, began time.Time)
	// Resume asks again for what policies had started before and did not end, and returns what is left of
	// it where the receiver stops meanwhile.
	Resume(unfinished []task.Request) (left []task.Request)
	// Charge adds the CPU time of work to what the engine has used.
	Charge(work func())
	task.Starter
}

// idle stands for an engine that has not started, or could not: the receiver's metrics report so.
type idle struct {
	capability string // that is missing
	why        error
	// before are what the policies of the engine before have seen, for the one that follows.
	before *engine.Windows
}

func (idle) Shutdown() error                                   { return nil }
func (i idle) Windows() *engine.Windows                        { return i.before }
func (idle) RestoreSilence(string, model.ProcessID, time.Time) {}
func (idle) Resume([]task.Request) []task.Request              { return nil }
func (idle) Charge(work func())                                { work() }
func (i idle) Start(task.Spec) (task.Observation, error)       { return nil, i.why }
func (i idle) Stats() engine.Stats {
	return engine.Stats{
		Attached: map[string]int{"on_cpu": 0, "process": 0},
		Degraded: map[string]string{i.capability: i.why.Error()},
	}
}

// degradedStart is the capability that is missing when nothing could be started, degradedStarting while the start goes on.
const degradedStart, degradedStarting = "start", "starting"

// pendingShare is the part of the memory limit that intervals may take that wait
// for the next consumer.
const pendingShare = 8

// ebpfReceiver is the one receiver of a configuration; each pipeline that lists
// it starts and stops it.
type ebpfReceiver struct {
	config   *Config
	settings receiver.Settings
	profiles xconsumer.Profiles // nil when no profiles pipeline lists the receiver
	metrics  consumer.Metrics   // likewise
	logs     consumer.Logs      // likewise
	traces   consumer.Traces    // likewise
	forget   func()

	started, stopped sync.Once

	// starting is the start of the engine, which giveUp ends.
	starting sync.WaitGroup
	giveUp   context.CancelFunc

	mu     sync.Mutex
	engine runner
	hosts  []component.Host
	status *componentstatus.Event // what was last reported, if anything
	// missing is why kinds cannot run here, or parts of them; nil where all do. reduced is why kinds are
	// reduced to keep to the limits.
	missing []error
	reduced map[string]error

	// warned keeps the warnings that were logged over a reload.
	warned *warn.Memory

	sinks     []*sink
	tasks     tasks
	telemetry *metadata.TelemetryBuilder
	// deliveries counts what the next consumers accept and refuse.
	deliveries *receiverhelper.ObsReport
}

// Start begins to start the engine the first time it is called. That takes seconds, and a minute on a busy host: it goes on when Start has
// returned, so that Shutdown can give it up. What keeps the engine from starting is reported as the component's status and stops nothing else.
func (r *ebpfReceiver) Start(ctx context.Context, host component.Host) error {
	r.join(host)
	var err error
	r.started.Do(func() { err = r.start(ctx, host) })
	return err
}

func (r *ebpfReceiver) start(ctx context.Context, host component.Host) error {
	// Errors are for the person who must act: where in the code they were found is of no use then.
	r.settings.Logger = r.settings.Logger.WithOptions(zap.AddStacktrace(zap.FatalLevel))
	var err error
	if r.telemetry, err = metadata.NewTelemetryBuilder(r.settings.TelemetrySettings); err != nil {
		return fmt.Errorf("creating the receiver's own metrics: %w", err)
	}
	if r.deliveries, err = newReport(r.settings); err != nil {
		return fmt.Errorf("creating the metrics of what is accepted and refused: %w", err)
	}
	taken := observe.Signals{Profiles: r.profiles != nil, Metrics: r.metrics != nil, Logs: r.logs != nil, Traces: r.traces != nil}
	config := engineConfig(r.config, taken)
	r.logIdle(config, taken)
	if r.tasks.store, err = openTaskStore(ctx, host, r.config.Storage, r.settings.ID); err != nil {
		return err
	}
	var unfinished []task.Request
	config.Before, unfinished, r.warned = handovers.take(r.settings.ID)
	r.warned = r.warned.Next()
	config.Warned = r.warned
	r.setEngine(idle{capability: degradedStarting, why: errStarting, before: config.Before})
	r.tasks.left = unfinished
	if err := r.fit(&config); err != nil {
		r.observeNothing(err)
		return r.observeSelf()
	}
	hooks := r.makeSinks(config.MemoryBytes)
	for _, s := range r.sinks {
		s.start(r.charge)
	}
	starting, cancel := context.WithCancel(context.Background())
	r.giveUp = cancel
	r.starting.Go(func() { r.observe(starting, config, hooks, taken) })
	return r.observeSelf()
}

// fit has the engine keep to the limits of the Collector's control group, too.
func (r *ebpfReceiver) fit(config *engine.Config) error {
	if !config.Observes() {
		return nil
	}
	limits, err := cgroup.Read()
	if err != nil {
		r.settings.Logger.Warn("The limits of the Collector's control group are not known; limits::memory_mib and cpu_percent are kept to alone", zap.Error(err))
	}
	return fit(config, r.settings.ID, limits, inUse(), r.settings.Logger)
}

// makeSinks makes a sink for each signal that a pipeline takes, and returns the
// hooks that lead there.
func (r *ebpfReceiver) makeSinks(memoryBytes uint64) engine.Hooks {
	hooks := engine.Hooks{Level: r.levelChanged, Held: r.held, Exited: r.tasks.exited, Ask: r.tasks.ask, Unavailable: r.unavailable}
	logger, version := r.settings.Logger, r.settings.BuildInfo.Version
	maxBytes := memoryBytes / pendingShare
	if n := count(r.profiles != nil, r.metrics != nil, r.logs != nil, r.traces != nil); n > 1 {
		maxBytes /= n
	}
	if r.profiles != nil {
		s := newProfileSink(reportedProfiles{r.profiles, r.deliveries}, logger, version, maxBytes)
		hooks.Profiles, r.sinks = s.put, append(r.sinks, s.sink)
	}
	if r.metrics != nil {
		s := newMetricSink(reportedMetrics{r.metrics, r.deliveries}, turnedOff(r.config.Metrics.MetricsConfig), logger, version, maxBytes)
		hooks.Metrics, r.sinks = s.put, append(r.sinks, s.sink)
	}
	if r.logs != nil {
		s := newLogSink(reportedLogs{r.logs, r.deliveries}, turnedOff(r.config.Events), logger, version, maxBytes)
		hooks.Logs, r.sinks = s.put, append(r.sinks, s.sink)
	}
	if r.traces != nil {
		s := newTraceSink(reportedTraces{r.traces, r.deliveries}, logger, version, maxBytes)
		hooks.Spans, r.sinks = s.put, append(r.sinks, s.sink)
	}
	return hooks
}

// count is how many hold.
func count(conditions ...bool) (n uint64) {
	for _, holds := range conditions {
		if holds {
			n++
		}
	}
	return n
}

// held is the memory of what waits for the next consumers.
func (r *ebpfReceiver) held() uint64 {
	var bytes uint64
	for _, s := range r.sinks {
		bytes += s.queue.held.Load()
	}
	return bytes
}

// reportMissing reports kinds that cannot run where others do.
func (r *ebpfReceiver) reportMissing(stats engine.Stats) {
	for _, kind := range stats.Missing {
		r.unavailable(errors.New(stats.Degraded[kind]))
	}
}

// unavailable reports why something that was asked for cannot be had, once.
func (r *ebpfReceiver) unavailable(why error) {
	r.mu.Lock()
	known := slices.ContainsFunc(r.missing, func(other error) bool { return other.Error() == why.Error() })
	if !known {
		r.missing = append(r.missing, why)
	}
	r.mu.Unlock()
	if !known {
		r.report(r.state())
	}
}

// state is the status of a receiver that has started.
func (r *ebpfReceiver) state() *componentstatus.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(append(slices.Clone(r.missing), r.reductions()...)...); err != nil {
		return componentstatus.NewRecoverableErrorEvent(err)
	}
	return componentstatus.NewEvent(componentstatus.StatusOK)
}

// Shutdown stops the engine, delivers the last interval and returns when nothing
// is left. What the next consumer refuses then is counted and logged, and is no
// error: the receiver itself has stopped as it should. It may be called without
// Start, and more than once.
func (r *ebpfReceiver) Shutdown(ctx context.Context) error {
	var err error
	r.stopped.Do(func() { err = r.stop(ctx) })
	return err
}

func (r *ebpfReceiver) stop(ctx context.Context) error {
	r.forget()
	if r.giveUp != nil {
		r.giveUp()
	}
	r.starting.Wait()
	var err error
	unfinished := r.tasks.stop()
	if e := r.running(); e != nil {
		err = e.Shutdown()
		handovers.leave(r.settings.ID, e.Windows(), unfinished, r.warned)
		r.stopSinks(ctx)
	}
	if r.telemetry != nil {
		r.telemetry.Shutdown()
	}
	return errors.Join(err, r.tasks.store.close(ctx))
}

// stopSinks stops all at once, so that a consumer that hangs takes no time from
// the others.
func (r *ebpfReceiver) stopSinks(ctx context.Context) {
	var stopped sync.WaitGroup
	for _, s := range r.sinks {
		stopped.Go(func() { s.stop(ctx) })
	}
	stopped.Wait()
}

// join remembers a pipeline's host and reports to it the status that was reported
// before.
func (r *ebpfReceiver) join(host component.Host) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hosts = append(r.hosts, host)
	if r.status != nil {
		componentstatus.ReportStatus(host, r.status)
	}
}

func (r *ebpfReceiver) report(event *componentstatus.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = event
	for _, host := range r.hosts {
		componentstatus.ReportStatus(host, event)
	}
}

// reductions is why kinds are reduced, by their names. The caller holds the lock.
func (r *ebpfReceiver) reductions() []error {
	var list []error
	for _, kind := range slices.Sorted(maps.Keys(r.reduced)) {
		list = append(list, r.reduced[kind])
	}
	return list
}

// levelChanged reports that a kind was reduced or restored.
func (r *ebpfReceiver) levelChanged(c engine.LevelChange) {
	fields := []zap.Field{zap.String("kind", c.Kind), zap.Int("level", c.Level), zap.String("cause", c.Cause)}
	r.mu.Lock()
	if r.reduced == nil {
		r.reduced = map[string]error{}
	}
	if delete(r.reduced, c.Kind); c.Level > 0 {
		r.reduced[c.Kind] = fmt.Errorf("%s is reduced by %d steps and %s: %s", c.Kind, c.Level, c.Effect, c.Cause)
	}
	r.mu.Unlock()
	if c.Level == 0 {
		r.settings.Logger.Info(c.Kind+" is as configured again", fields...)
	} else {
		r.settings.Logger.Warn(fmt.Sprintf("%s is reduced to keep to the limits: it %s", c.Kind, c.Effect), fields...)
	}
	r.report(r.state())
}
