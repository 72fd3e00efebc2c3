// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// tasks are the tasks of a receiver, from its start on.
type tasks struct {
	manager atomic.Pointer[task.Manager]
	store   *taskStore // nil where the configuration names no storage
	asking  sync.WaitGroup
	left    []task.Request // of what policies had started before: all of it until asking begins, what was not asked for when that is over
}

// exited forwards the exits that the engine reports; the engine exists first.
func (t *tasks) exited(id model.ProcessID) {
	if m := t.manager.Load(); m != nil {
		m.Exited(id)
	}
}

// ask asks for a task on behalf of a policy.
func (t *tasks) ask(r task.Request) []task.Outcome {
	if m := t.manager.Load(); m != nil {
		return m.Request(r)
	}
	outcomes := []task.Outcome{{Err: task.ErrClosed}} // of no run, too
	for i, run := range r.Runs {
		outcomes = append(outcomes[:i], task.Outcome{Kind: run.Kind, Err: task.ErrClosed})
	}
	return outcomes
}

// start makes the manager and requests the configured tasks. ran is called with the remembered runs
// that policies started before; goOn is called when the configured tasks have started, and may resume
// interrupted ones.
func (t *tasks) start(config task.Config, requests []task.Request, ran func(policy string, id model.ProcessID, began time.Time), goOn func() (left []task.Request)) {
	if t.store != nil {
		config.Store = t.store
	}
	m := task.New(config)
	restorePast(m.Tasks(), ran)
	t.manager.Store(m) // from now on policies can start something
	// Loading takes a while, in which the Collector can go on starting.
	t.asking.Go(func() {
		for i := range requests {
			tellOutcomes(&requests[i], m.Request(requests[i]), config.Logger)
		}
		t.left = goOn()
	})
}

// restorePast reports the runs that policies started, or took for their own since they ran already.
func restorePast(records []task.Record, ran func(policy string, id model.ProcessID, began time.Time)) {
	for i := range records {
		r := &records[i]
		if began, p := r.Began(), r.Process; r.Policy() != "" && p != nil && !began.IsZero() && !r.GoesOn {
			ran(r.Policy(), model.ProcessID{PID: p.PID, StartTicks: p.StartTicks}, began)
		}
		for j := range r.For {
			b := &r.For[j]
			ran(b.Policy(), model.ProcessID{PID: b.PID, StartTicks: b.StartTicks}, b.At)
		}
	}
}

// tellOutcomes says of the configuration's tasks what did not start at once, and why.
func tellOutcomes(r *task.Request, outcomes []task.Outcome, logger *zap.Logger) {
	for _, o := range outcomes {
		fields := []zap.Field{zap.String("name", r.Name), zap.String("kind", o.Kind)}
		switch {
		case o.Err != nil:
			logger.Error("A task of the configuration does not run", append(fields, zap.Error(o.Err))...)
		case o.Already:
			logger.Warn("A task of the configuration observes what another one does already", append(fields, zap.String("task", o.TaskID))...)
		case o.State == task.Scheduled:
			logger.Info("A task of the configuration will start", append(fields, zap.String("task", o.TaskID), zap.Time("start", r.Start))...)
		}
	}
}

// stop ends all tasks and returns what policies had started and is not over; what they have seen is
// handed over by the engine.
func (t *tasks) stop() (unfinished []task.Request) {
	if m := t.manager.Load(); m != nil {
		m.Close()
		unfinished = m.Unfinished()
	}
	t.asking.Wait()
	return append(unfinished, t.left...)
}

// startTasks begins with tasks where the configuration may ask for any.
func (r *ebpfReceiver) startTasks(config engine.Config, hooks engine.Hooks, taken observe.Signals) {
	unfinished := r.tasks.left
	r.tasks.left = nil
	if !config.OnDemand {
		return
	}
	logger := r.settings.Logger
	requests, over := taskRequests(r.config.Tasks, taken, time.Now())
	for _, name := range over {
		logger.Info("A task of the configuration does not run: its time is over", zap.String("name", name))
	}
	emit := hooks.Logs
	if emit == nil {
		emit = func(logs []*model.Logs) { logEvents(logs, logger) }
	}
	e := r.running()
	r.tasks.start(task.Config{Starter: e, Running: r.config.Limits.ConcurrentTasks, Different: engine.TaskObservations, Emit: emit, Logger: logger}, requests, e.RestoreSilence,
		func() []task.Request { return e.Resume(unfinished) })
}

// logEvents writes events of tasks to the Collector's own log, where no pipeline takes
// logs.
func logEvents(logs []*model.Logs, logger *zap.Logger) {
	for _, of := range logs {
		for i := range of.Logs {
			l := &of.Logs[i]
			fields := make([]zap.Field, 0, len(l.Attributes)+1)
			if of.Process != nil {
				fields = append(fields, zap.Uint32("process.pid", of.Process.ID.PID), zap.String("service.name", of.Process.ServiceName))
			}
			for _, a := range l.Attributes {
				switch a.Value.Type {
				case model.IntAttribute:
					fields = append(fields, zap.Int64(a.Key, a.Value.Int))
				case model.FloatAttribute:
					fields = append(fields, zap.Float64(a.Key, a.Value.Float()))
				default:
					fields = append(fields, zap.String(a.Key, a.Value.Text))
				}
			}
			if l.Severity == model.Info {
				logger.Info(l.Event, fields...)
			} else {
				logger.Warn(l.Event, fields...)
			}
		}
	}
}

// tasksNow counts tasks, tasksRefused requests of which nothing came.
func (r *ebpfReceiver) tasksNow(_ engine.Stats, observe observeInt) {
	if m := r.tasks.manager.Load(); m != nil {
		stats := m.Stats()
		observe(int64(stats.Running), attribute.String("state", "running"))
		observe(int64(stats.Queued), attribute.String("state", string(task.Queued)))
		observe(int64(stats.Scheduled), attribute.String("state", string(task.Scheduled)))
	}
}

func (r *ebpfReceiver) tasksRefused(_ engine.Stats, observe observeInt) {
	if m := r.tasks.manager.Load(); m != nil {
		observe(int64(m.Stats().Refused))
	}
}
