// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// fakeStarter notes what it starts and stops.
type fakeStarter struct {
	mu      sync.Mutex
	running map[string]*fakeObservation // by task and kind
	starts  []Spec
	most    int
	// fail is what starting answers; takes is how long it takes.
	fail  error
	takes time.Duration
}

type fakeObservation struct {
	of     *fakeStarter
	spec   Spec
	counts Counts
	covers func(model.ProcessID) bool
	living []*model.Process
	asked  func() // who is living
}

func (s *fakeStarter) Start(spec Spec) (Observation, error) {
	time.Sleep(s.takes)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return nil, s.fail
	}
	o := &fakeObservation{of: s, spec: spec, counts: Counts{Samples: 7, Losses: 1}}
	s.starts = append(s.starts, spec)
	s.running[spec.TaskID+spec.Kind] = o
	s.most = max(s.most, len(s.running))
	return o, nil
}

func (s *fakeStarter) answers(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// started is what it has started so far.
func (s *fakeStarter) started() []Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.starts)
}

func (s *fakeStarter) runs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

func (o *fakeObservation) Covers(id model.ProcessID) bool { return o.covers == nil || o.covers(id) }

func (o *fakeObservation) Living() []*model.Process {
	if o.asked != nil {
		o.asked()
	}
	return slices.Clone(o.living)
}

func (o *fakeObservation) Stop() (Counts, error) {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	key := o.spec.TaskID + o.spec.Kind
	if o.of.running[key] != o {
		return Counts{}, errors.New("stopped twice")
	}
	delete(o.of.running, key)
	return o.counts, nil
}

// harness is a manager with its fakes, on a clock of its own.
type harness struct {
	*Manager
	t       *testing.T
	starter *fakeStarter
	logs    *observer.ObservedLogs

	mu      sync.Mutex
	emitted []*model.Logs
}

// in runs a test with a manager that lets so many tasks run at once, whose time passes only as the test lets it.
func in(t *testing.T, running int, store Store, test func(h *harness)) {
	t.Helper()
	with(t, Config{Running: running, Store: store}, test)
}

// with is in where more is configured than that.
func with(t *testing.T, config Config, test func(h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		h := &harness{t: t, logs: logs, starter: &fakeStarter{running: map[string]*fakeObservation{}}}
		config.Starter, config.Logger, config.Emit = h.starter, zap.New(core), h.emit
		h.Manager = New(config)
		defer func() {
			h.Close()
			require.Zero(t, h.starter.runs(), "something runs on")
			require.Empty(t, h.tasks)
			require.Zero(t, h.running)
			require.Empty(t, h.capacity.taken)
			require.Empty(t, h.watch.of)
			require.Empty(t, h.watch.gone)
		}()
		test(h)
	})
}

func (h *harness) emit(logs []*model.Logs) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.emitted = append(h.emitted, logs...)
}

// after lets time pass.
func (h *harness) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// events returns the names of the events that were emitted since the last call, with the reason of an end.
func (h *harness) events() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for _, logs := range h.emitted {
		for _, l := range logs.Logs {
			name := l.Event
			for _, a := range l.Attributes {
				if a.Key == "ebpf.task.end.reason" {
					name += " " + a.Value.Text
				}
			}
			names = append(names, name)
		}
	}
	h.emitted = nil
	return names
}

func (h *harness) record(id string) Record {
	h.t.Helper()
	list := h.Tasks()
	i := slices.IndexFunc(list, func(r Record) bool { return r.ID == id })
	require.GreaterOrEqual(h.t, i, 0, "no task %s", id)
	return list[i]
}

// processOf is one that is known by its pid.
func processOf(pid uint32) *model.Process {
	return &model.Process{ID: model.ProcessID{PID: pid, StartTicks: 100 + uint64(pid)}, ServiceName: "shop"}
}

// asks is a request for kinds of one process for a minute.
func asks(pid uint32, kinds ...string) Request {
	r := Request{Name: "n", By: "policy:slow", Duration: time.Minute, Processes: []*model.Process{processOf(pid)}}
	for _, kind := range kinds {
		r.Runs = append(r.Runs, Run{Kind: kind})
	}
	return r
}

// memory is a store that forgets nothing.
type memory struct {
	mu     sync.Mutex
	values map[string][]byte
	saves  int
	fail   error
}

func (m *memory) Load(_ context.Context, keys []string) ([][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := make([][]byte, len(keys))
	for i, key := range keys {
		values[i] = m.values[key]
	}
	return values, m.fail
}

func (m *memory) Save(_ context.Context, values map[string][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saves++
	if m.fail != nil {
		return m.fail
	}
	for key, value := range values {
		if value == nil {
			delete(m.values, key)
		} else {
			m.values[key] = value
		}
	}
	return nil
}

func (m *memory) fails(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = why
}
