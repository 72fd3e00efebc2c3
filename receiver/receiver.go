// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// runner is the engine, or what stands for it on other platforms.
type runner interface {
	// Shutdown delivers what was seen so far and frees everything.
	Shutdown() error
	Stats() engine.Stats
	// Windows are what policies have seen; nil where there are none. It is called after Shutdown.
	Windows() *engine.Windows
	// Ran tells what a policy has started for a process before this engine was.
	Ran(policy string, id model.ProcessID, began time.Time)
	// GoOn asks again for what policies had started before and did not end, and returns what is left of
	// it where the receiver stops meanwhile.
	GoOn(unfinished []task.Request) (left []task.Request)
	// Charge adds the CPU time of work to what the engine has used.
	Charge(work func())
	task.Starter
}

// idle stands for an engine that could not start: the receiver's metrics tell so.
type idle struct{ why error }

func (idle) Shutdown() error                             { return nil }
func (idle) Windows() *engine.Windows                    { return nil }
func (idle) Ran(string, model.ProcessID, time.Time)      {}
func (idle) GoOn([]task.Request) []task.Request          { return nil }
func (idle) Charge(work func())                          { work() }
func (i idle) Start(task.Spec) (task.Observation, error) { return nil, i.why }
func (i idle) Stats() engine.Stats {
	return engine.Stats{
		Attached: map[string]int{"on_cpu": 0, "process": 0},
		Degraded: map[string]string{degradedStart: i.why.Error()},
	}
}

// degradedStart is the capability that is missing when nothing could be started.
const degradedStart = "start"

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

	mu     sync.Mutex
	hosts  []component.Host
	status *componentstatus.Event // what was last reported, if anything
	// missing says which kinds cannot run here, and why; nil where all do.
	missing error

	engine    runner
	sinks     []*sink
	tasks     tasks
	telemetry *metadata.TelemetryBuilder
}

// Start starts the engine the first time it is called. What keeps the engine
// from starting is reported as the component's status and stops nothing else.
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
	taken := signals{profiles: r.profiles != nil, metrics: r.metrics != nil, logs: r.logs != nil, traces: r.traces != nil}
	config := engineConfig(r.config, taken)
	r.tellIdle(config, taken)
	if r.tasks.store, err = openTaskStore(ctx, host, r.config.Storage, r.settings.ID); err != nil {
		return err
	}
	var unfinished []task.Request
	config.Before, unfinished = successions.take(r.settings.ID)
	hooks := r.makeSinks(config.MemoryBytes)
	if r.engine, err = startEngine(config, hooks, r.settings.Logger); err != nil {
		r.settings.Logger.Error("The receiver observes nothing", zap.Error(err))
		r.report(componentstatus.NewPermanentErrorEvent(err))
		r.engine, r.sinks = idle{why: err}, nil
		return r.observeSelf()
	}
	for _, s := range r.sinks {
		s.start(r.engine.Charge)
	}
	r.startTasks(config, hooks, taken, unfinished)
	r.reportMissing(r.engine.Stats())
	return r.observeSelf()
}

// makeSinks makes a sink for each signal that a pipeline takes, and returns the
// hooks that lead there.
func (r *ebpfReceiver) makeSinks(memoryBytes uint64) engine.Hooks {
	hooks := engine.Hooks{Level: r.levelChanged, Held: r.held, Exited: r.tasks.exited, Ask: r.tasks.ask}
	logger, version := r.settings.Logger, r.settings.BuildInfo.Version
	maxBytes := memoryBytes / pendingShare
	if n := count(r.profiles != nil, r.metrics != nil, r.logs != nil, r.traces != nil); n > 1 {
		maxBytes /= n
	}
	if r.profiles != nil {
		s := newProfileSink(r.profiles, logger, version, maxBytes)
		hooks.Profiles, r.sinks = s.put, append(r.sinks, s.sink)
	}
	if r.metrics != nil {
		s := newMetricSink(r.metrics, turnedOff(r.config.Metrics), logger, version, maxBytes)
		hooks.Metrics, r.sinks = s.put, append(r.sinks, s.sink)
	}
	if r.logs != nil {
		s := newLogSink(r.logs, turnedOff(r.config.Events), logger, version, maxBytes)
		hooks.Logs, r.sinks = s.put, append(r.sinks, s.sink)
	}
	if r.traces != nil {
		s := newTraceSink(r.traces, logger, version, maxBytes)
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

// reportMissing tells of kinds that cannot run where others do.
func (r *ebpfReceiver) reportMissing(stats engine.Stats) {
	var errs []error
	for _, kind := range stats.Missing {
		errs = append(errs, errors.New(stats.Degraded[kind]))
	}
	if len(errs) == 0 {
		return
	}
	r.mu.Lock()
	r.missing = errors.Join(errs...)
	r.mu.Unlock()
	r.report(r.asStarted())
}

// asStarted is the status while no sampling is reduced.
func (r *ebpfReceiver) asStarted() *componentstatus.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.missing != nil {
		return componentstatus.NewRecoverableErrorEvent(r.missing)
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
	var err error
	unfinished := r.tasks.stop()
	if r.engine != nil {
		err = r.engine.Shutdown()
		successions.leave(r.settings.ID, r.engine.Windows(), unfinished)
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

// join remembers a pipeline's host and tells it what was reported before.
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

// levelChanged tells that sampling was reduced or restored.
func (r *ebpfReceiver) levelChanged(level int, cause string) {
	if level == 0 {
		r.settings.Logger.Info("Sampling is as configured again", zap.String("cause", cause))
		r.report(r.asStarted())
		return
	}
	r.settings.Logger.Warn("Sampling is reduced to keep to the limits",
		zap.Int("level", level), zap.String("cause", cause))
	r.report(componentstatus.NewRecoverableErrorEvent(fmt.Errorf("sampling is reduced by %d steps: %s", level, cause)))
}
