// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// Errors of requests.
var (
	// ErrFull: as many tasks wait as may.
	ErrFull = errors.New("as many tasks wait as may")
	// ErrClosed: the receiver is starting or stopping.
	ErrClosed = errors.New("the receiver is starting or stopping")
	// ErrNothing: there is nothing to run, for example because no pipeline takes the result.
	ErrNothing = errors.New("nothing to run, or no pipeline takes what is run")
	// ErrUnknown: there is no such task, or it has ended.
	ErrUnknown = errors.New("no such task waits or runs")
)

const (
	// maxWaiting bounds the tasks that wait for their start or for a slot.
	maxWaiting = 1024
	// maxWait is how long a task waits for a slot: what it was to observe is long over then.
	maxWait = time.Hour
)

// Config is what a manager needs.
type Config struct {
	Starter Starter
	// Running is how many tasks run at once, at least 1 and fewer than are remembered.
	Running int
	// Different is how many observations with different options the starter makes at once;
	// 0: as many as are wanted.
	Different int
	// Emit takes the events of tasks and owns them; it must return soon.
	Emit func([]*model.Logs)
	// Store keeps the history; nil: it is not kept.
	Store  Store
	Logger *zap.Logger
}

// Stats are metrics of a manager.
type Stats struct {
	// Running, Queued and Scheduled count tasks now.
	Running, Queued, Scheduled int
	// Refused counts requests since the start of which nothing came: as many waited as may.
	Refused uint64
}

// Manager holds the tasks. Its methods may be called from any goroutine.
type Manager struct {
	config   Config
	warnings *warn.Rarely
	wake     chan struct{}
	unsaved  chan struct{} // the history has changed
	stop     context.CancelFunc
	loops    sync.WaitGroup
	work     sync.WaitGroup // goroutines that start or stop a run
	watch    watch

	mu       sync.Mutex // all below
	closed   bool
	tasks    map[string]*entry // those that wait or run, by id
	waiting  []*entry          // of them, in the order in which they were asked for
	running  int               // how many of them have a place
	capacity capacity          // what they observe
	refused  uint64
	history  history
	// unfinished is what Close has ended of policies' tasks.
	unfinished []unfinished
}

// New starts a manager.
func New(config Config) *Manager {
	ctx, cancel := context.WithCancel(context.Background())
	m := &Manager{
		config: config, wake: make(chan struct{}, 1), unsaved: make(chan struct{}, 1), stop: cancel,
		tasks: map[string]*entry{}, history: newHistory(), watch: newWatch(), capacity: capacity{most: config.Different},
		warnings: warn.NewRarely(config.Logger, "Not all tasks run at once that are asked for", nil),
	}
	if config.Store != nil {
		if err := m.history.load(ctx, config.Store, time.Now()); err != nil {
			config.Logger.Warn("Some of the history of tasks is lost", zap.Error(err))
		}
		if n := len(m.history.records(time.Now())); n > 0 {
			config.Logger.Info("Tasks of the last 48 hours are remembered", zap.Int("tasks", n))
		}
		m.loops.Go(func() { m.saveAsItChanges(ctx) })
	}
	m.loops.Go(func() { m.run(ctx) })
	return m
}

// Request requests a task and returns the outcome of each of its runs, in their order. It returns
// when those that start at once have started. Only the answer reports a run that could not start:
// the run is refused, and may be requested again.
func (m *Manager) Request(r Request) []Outcome {
	now := time.Now()
	e, begins, outcomes := m.take(&r, now)
	var logs []*model.Logs
	if begins {
		logs = m.begin(e)
		m.work.Done()
	}
	m.mu.Lock()
	if e != nil {
		for _, one := range e.runs {
			one.tellOutcome(&outcomes[one.index])
		}
	}
	if of, ok := whose(outcomes); ok {
		logs = append(r.triggered(of, now), logs...)
	} else if AllRefused(outcomes) && !r.Reported {
		logs = append(logs, r.triggered(refusal(outcomes), now)...)
	}
	m.mu.Unlock()
	m.emit(logs)
	m.rouse()
	return outcomes
}

// whose is the task that a request has come to: its own, or else one that runs already;
// none where all that came of it is that another task waits for its turn.
func whose(outcomes []Outcome) (of Outcome, ok bool) {
	for _, o := range outcomes {
		switch {
		case o.Err != nil:
		case !o.Already:
			return o, true
		case o.State == Started:
			of, ok = o, true
		}
	}
	return of, ok
}

// refusal says why nothing comes of a request.
func refusal(outcomes []Outcome) Outcome {
	if len(outcomes) == 0 {
		return Outcome{State: Refused, Err: ErrNothing}
	}
	return Outcome{State: Refused, Err: outcomes[0].Err}
}

// begin starts the runs of a task that has got a slot, and returns the events of that.
func (m *Manager) begin(e *entry) []*model.Logs {
	var logs []*model.Logs
	for _, one := range e.runs {
		if spec, ok := m.spec(one); ok {
			observation, err := m.config.Starter.Start(spec)
			logs = append(logs, m.began(one, observation, err)...)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle(e)
	return logs
}

// spec says what to start; false where a run has nothing to do any more.
func (m *Manager) spec(one *run) (Spec, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !one.starting {
		return Spec{}, false
	}
	return Spec{TaskID: one.of.id, Kind: one.kind, Options: one.options, Processes: slices.Clone(one.processes), Instance: one.instance, Targets: one.targets}, true
}

// began notes that a run has started, or could not start. A request that waits for its answer gets
// it from that alone; one whose answer was that it is queued is notified now.
func (m *Manager) began(one *run, observation Observation, err error) []*model.Logs {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.rouse() // others may wait for what comes of it
	now := time.Now()
	one.starting = false
	if err == nil {
		one.observation, one.begin, one.end = observation, now, now.Add(one.duration)
		if started := one.of.request.Started; started != nil && one.of.waited {
			started(one.kind)
		}
		return append(m.followersStarted(one, one, now), one.startedLog(now))
	}
	one.err = fmt.Errorf("starting %s: %w", one.kind, err)
	log := m.over(one, Failed, now)
	if !one.of.waited {
		return nil
	}
	return []*model.Logs{log}
}

// over ends a run and returns the events of that. The caller holds the lock.
func (m *Manager) over(one *run, reason Reason, now time.Time) *model.Logs {
	if one.begin.IsZero() {
		one.answer(reason)
	}
	m.noteUnfinished(one, reason, now)
	one.state, one.reason, one.end, one.stopping, one.starting = Ended, reason, now, false, false
	m.watch.remove(one.processes)
	one.processes, one.observation = nil, nil
	m.advanceRests(one, now)
	if m.capacity.leave(one) {
		for _, e := range m.waiting {
			e.lacksCapacity = false
		}
	}
	return one.finishedLog()
}

// settle notes the state of a task; one that has ended releases its slot. The caller holds the
// lock.
func (m *Manager) settle(e *entry) {
	if m.tasks[e.id] == nil {
		return
	}
	m.remember(e)
	if !e.ended() {
		return
	}
	delete(m.tasks, e.id)
	if e.admitted {
		e.admitted = false
		m.running--
	}
	m.rouse()
}

// remember writes a task into the history: one that has begun to run, or has waited in
// vain. The caller holds the lock.
func (m *Manager) remember(e *entry) {
	switch {
	case !e.admitted && !e.ended(), e.refused() && e.slot == noSlot:
		return
	case e.refused(): // it was extended while it started
		m.history.drop(e.slot)
		e.slot = noSlot
	case e.slot == noSlot:
		e.slot = m.history.add(e.record())
	default:
		m.history.set(e.slot, e.record())
	}
	rouse(m.unsaved)
}

// Exited notes that a process has ended, or cannot be observed any more. It returns at once.
func (m *Manager) Exited(id model.ProcessID) {
	if m.watch.exited(id) {
		m.rouse()
	}
}

// Stop ends a task before its time; one that waits will not start.
func (m *Manager) Stop(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.tasks[id]
	if e == nil {
		return fmt.Errorf("stopping task %s: %w", id, ErrUnknown)
	}
	e.end(Stopped)
	m.rouse()
	return nil
}

// Extend has each run of a task last until a duration from now has gone by, or from its
// beginning where that is to come, if it would end before.
func (m *Manager) Extend(id string, by time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.tasks[id]
	if e == nil {
		return fmt.Errorf("extending task %s: %w", id, ErrUnknown)
	}
	now := time.Now()
	for _, one := range e.runs {
		one.extend(now, by)
	}
	m.remember(e)
	return nil
}

// Tasks are those that are remembered, wait or run, in the order in which they were asked
// for.
func (m *Manager) Tasks() []Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.history.records(time.Now())
	for _, e := range m.tasks {
		if e.slot == noSlot {
			list = append(list, e.record())
		}
	}
	slices.SortStableFunc(list, func(a, b Record) int { return a.Asked.Compare(b.Asked) })
	return list
}

// Stats counts the tasks.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	stats := Stats{Running: m.running, Refused: m.refused}
	for _, e := range m.waiting {
		if e.runs[0].state == Scheduled {
			stats.Scheduled++
		} else {
			stats.Queued++
		}
	}
	return stats
}

// Close stops what runs and returns when nothing is left.
func (m *Manager) Close() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.closed = true
	for _, e := range m.tasks {
		e.end(Shutdown)
	}
	m.mu.Unlock()
	m.stop()
	m.loops.Wait()
	for m.left() {
		m.work.Wait() // who was starting has started now
		m.advance(time.Now())
		m.work.Wait()
	}
	m.save(context.Background())
	m.warnings.Close()
}

func (m *Manager) left() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.tasks) > 0
}

func (m *Manager) emit(logs []*model.Logs) {
	if len(logs) > 0 && m.config.Emit != nil {
		m.config.Emit(logs)
	}
}

func (m *Manager) rouse() { rouse(m.wake) }

func rouse(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // it is awake
	}
}
