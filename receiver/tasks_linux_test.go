// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package receiver

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// fakeStorage is a storage extension and its one client, which forgets nothing.
type fakeStorage struct {
	component.StartFunc
	component.ShutdownFunc
	mu     sync.Mutex
	values map[string][]byte
	closed bool
}

func (s *fakeStorage) GetClient(context.Context, component.Kind, component.ID, string) (storage.Client, error) {
	return s, nil
}

func (s *fakeStorage) Get(ctx context.Context, key string) ([]byte, error) {
	get := storage.GetOperation(key)
	return get.Value, s.Batch(ctx, get)
}

func (s *fakeStorage) Set(ctx context.Context, key string, value []byte) error {
	return s.Batch(ctx, storage.SetOperation(key, value))
}

func (s *fakeStorage) Delete(ctx context.Context, key string) error {
	return s.Batch(ctx, storage.DeleteOperation(key))
}

func (s *fakeStorage) Batch(_ context.Context, ops ...*storage.Operation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, op := range ops {
		switch op.Type {
		case storage.Get:
			op.Value = s.values[op.Key]
		case storage.Set:
			s.values[op.Key] = op.Value
		case storage.Delete:
			delete(s.values, op.Key)
		}
	}
	return nil
}

func (s *fakeStorage) Close(context.Context) error {
	s.closed = true
	return nil
}

// extended is a host with extensions.
type extended struct {
	statusHost
	extensions map[component.ID]component.Component
}

func (h *extended) GetExtensions() map[component.ID]component.Component { return h.extensions }

// exportedEvents are the events of logs, by name, with their attributes and the pid of their resource.
func exportedEvents(sink *consumertest.LogsSink) map[string][]map[string]any {
	events := map[string][]map[string]any{}
	for _, message := range sink.AllLogs() {
		for _, resource := range message.ResourceLogs().All() {
			for _, record := range resource.ScopeLogs().At(0).LogRecords().All() {
				events[record.EventName()] = append(events[record.EventName()], record.Attributes().AsRaw())
			}
		}
	}
	return events
}

// TestTaskOfTheConfiguration checks that a task of the configuration profiles its process for its time, that its profiles have the
// process's resource, that its start and end are logged as metadata.yaml declares them, and that a restart knows of it.
func TestTaskOfTheConfiguration(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	busy := exec.Command("sh", "-c", "while :; do :; done")
	require.NoError(t, busy.Start())
	t.Cleanup(func() {
		_ = busy.Process.Kill() // it runs for ever
		_ = busy.Wait()         // it was killed
	})
	config := createDefaultConfig().(*Config)
	config.Observe = ObserveConfig{}
	var run RunConfig
	require.NoError(t, run.UnmarshalText([]byte("on_cpu")))
	runOnCPU(&run).ReportInterval = time.Second
	config.Tasks = []TaskConfig{{
		Name: "busy", Run: []RunConfig{run}, Targets: []SelectorConfig{{PID: uint32(busy.Process.Pid)}}, Duration: 5 * time.Second,
	}}
	id := component.MustNewID("file_storage")
	config.Storage = &id
	require.NoError(t, config.Validate())

	kept := &fakeStorage{values: map[string][]byte{}}
	host := &extended{extensions: map[component.ID]component.Component{id: kept}}
	profiles, logs := &consumertest.ProfilesSink{}, &consumertest.LogsSink{}
	factory, settings := NewFactory(), receivertest.NewNopSettings(metadata.Type)
	r, err := factory.(xreceiver.Factory).CreateProfiles(t.Context(), settings, config, profiles)
	require.NoError(t, err)
	_, err = factory.CreateLogs(t.Context(), settings, config, logs)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), host))
	awaitStart(r)
	for _, e := range host.events {
		require.NotEqual(t, componentstatus.StatusPermanentError, e.Status(), "%v", e.Err())
	}
	require.Eventually(t, func() bool { return len(exportedEvents(logs)["ebpf.task.finished"]) > 0 }, time.Minute, 50*time.Millisecond)
	tasks := r.(*ebpfReceiver).tasks.manager.Load().Tasks()
	require.Len(t, tasks, 1)
	require.NoError(t, r.Shutdown(context.Background()))
	require.True(t, kept.closed)
	require.Len(t, kept.values, 1)
	require.Contains(t, string(kept.values["task/0"]), `"reason":"duration"`)

	events, d := exportedEvents(logs), readDeclared(t)
	require.Len(t, events, 2)
	for name, list := range events {
		require.Len(t, list, 1)
		d.requireAttributes(t, name, d.Events[name].Attributes, list[0])
		require.Equal(t, tasks[0].ID, list[0]["ebpf.task.id"])
		require.Equal(t, "busy", list[0]["ebpf.task.name"])
		require.Equal(t, "config", list[0]["ebpf.task.origin"])
	}
	require.Equal(t, "duration", events["ebpf.task.finished"][0]["ebpf.task.end.reason"])
	require.Positive(t, events["ebpf.task.finished"][0]["ebpf.task.samples"])

	var samples int64
	for _, message := range profiles.AllProfiles() {
		for _, resource := range message.ResourceProfiles().All() {
			pid, _ := resource.Resource().Attributes().Get("process.pid")
			require.Equal(t, int64(busy.Process.Pid), pid.Int())
			for _, p := range resource.ScopeProfiles().At(0).Profiles().All() {
				require.Equal(t, 1, p.AttributeIndices().Len())
				attribute := message.Dictionary().AttributeTable().At(int(p.AttributeIndices().At(0)))
				require.Equal(t, "ebpf.task.id", message.Dictionary().StringTable().At(int(attribute.KeyStrindex())))
				require.Equal(t, tasks[0].ID, attribute.Value().Str())
				for _, sample := range p.Samples().All() {
					for _, n := range sample.Values().All() {
						samples += n
					}
				}
			}
		}
	}
	require.Equal(t, events["ebpf.task.finished"][0]["ebpf.task.samples"], samples)
}

// TestHistoryIsReadBack checks that a receiver knows after a restart what has run in the last 48 hours, that an unreadable record on the
// disk is logged and stops nothing, and that older records are removed there.
func TestHistoryIsReadBack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	ran := func(id string, ago time.Duration, state task.State) []byte {
		end := time.Now().Add(-ago).Round(0)
		raw, err := json.Marshal(task.Record{
			ID: id, Name: "slow", By: "policy:slow", Asked: end.Add(-time.Minute), Runs: []task.RunRecord{{
				Kind: "on_cpu", State: state, Reason: task.TimeUp, Duration: time.Minute, Begin: end.Add(-time.Minute), End: end,
				Processes: []task.ProcessName{{PID: 7, StartTicks: 70, Service: "shop"}}, Of: 1, Counts: task.Counts{Samples: 600},
			}},
			Causes: []model.Cause{{Monitor: "process_cpu", Threshold: 80, Value: 93.5}},
		})
		require.NoError(t, err)
		return raw
	}
	kept := &fakeStorage{values: map[string][]byte{
		"task/0": ran("yesterday", 24*time.Hour, task.Ended), "task/3": ran("old", 49*time.Hour, task.Ended),
		"task/5": ran("killed", -time.Hour, task.Started), "task/7": ran("just now", time.Minute, task.Ended),
		"task/8": []byte("{"), "task/9": make([]byte, 1<<20), "task/10": []byte(`{"id": 5}`),
		"task/5000": ran("beyond", time.Hour, task.Ended), "other": []byte("of another component"),
	}}
	config, id := createDefaultConfig().(*Config), component.MustNewID("file_storage")
	config.Observe, config.Storage = ObserveConfig{}, &id
	var run RunConfig
	require.NoError(t, run.UnmarshalText([]byte("on_cpu")))
	config.Tasks = []TaskConfig{{Name: "later", Run: []RunConfig{run}, Duration: time.Minute, Start: time.Now().Add(time.Hour)}}
	require.NoError(t, config.Validate())
	host := &extended{extensions: map[component.ID]component.Component{id: kept}}
	core, logs := observer.New(zap.InfoLevel)
	settings := receivertest.NewNopSettings(metadata.Type)
	settings.Logger = zap.New(core)
	r, err := NewFactory().(xreceiver.Factory).CreateProfiles(t.Context(), settings, config, &consumertest.ProfilesSink{})
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), host))
	awaitStart(r)
	for _, e := range host.events {
		require.NotEqual(t, componentstatus.StatusPermanentError, e.Status(), "%v", e.Err())
	}
	var known []string
	for _, record := range r.(*ebpfReceiver).tasks.manager.Load().Tasks() {
		known = append(known, record.ID)
		switch record.ID {
		case "yesterday":
			require.Equal(t, []model.Cause{{Monitor: "process_cpu", Threshold: 80, Value: 93.5}}, record.Causes)
			require.Equal(t, uint64(600), record.Runs[0].Counts.Samples)
			require.Equal(t, task.TimeUp, record.Runs[0].Reason)
		case "killed":
			require.Equal(t, task.Interrupted, record.Runs[0].Reason)
		}
	}
	require.Subset(t, known, []string{"yesterday", "just now", "killed"})
	require.NotContains(t, known, "old")
	require.NotContains(t, known, "beyond")
	lost := logs.FilterMessage("Some of the history of tasks is lost").All()
	require.Len(t, lost, 1)
	for _, key := range []string{"task/8", "task/9", "task/10"} {
		require.Contains(t, lost[0].ContextMap()["error"], "reading "+key+" of the history of tasks")
	}
	remembered := logs.FilterMessage("Tasks of the last 48 hours are remembered").All()
	require.Len(t, remembered, 1)
	require.EqualValues(t, 3, remembered[0].ContextMap()["tasks"])
	require.NoError(t, r.Shutdown(context.Background()))
	require.NotContains(t, kept.values, "task/3", "it is too old")
	require.Contains(t, string(kept.values["task/5"]), "interrupted")
	require.Equal(t, "of another component", string(kept.values["other"]))
}

// TestStorageMissing checks that a storage that is not there stops the Collector, with what to do.
func TestStorageMissing(t *testing.T) {
	config, id := createDefaultConfig().(*Config), component.MustNewID("file_storage")
	config.Storage = &id
	for want, extensions := range map[string]map[component.ID]component.Component{
		"storage: there is no extension file_storage: list it under service::extensions":            nil,
		"storage: the extension file_storage is no storage: name one that is, such as file_storage": {id: nil},
	} {
		r := newProfiles(t, config)
		require.EqualError(t, r.Start(t.Context(), &extended{extensions: extensions}), want)
		require.NoError(t, r.Shutdown(t.Context()))
	}
}

// TestPastIsRestored checks that the runs that policies started, with their processes, are restored from the history, and nothing else is.
func TestPastIsRestored(t *testing.T) {
	at := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	of := &task.ProcessName{PID: 7, StartTicks: 70}
	ran := []task.RunRecord{{State: task.Ended, Begin: at.Add(time.Second)}, {State: task.Ended, Begin: at}, {State: task.Ended}}
	type restored struct {
		policy string
		id     model.ProcessID
		at     time.Time
	}
	var list []restored
	restorePast([]task.Record{
		{By: "policy:slow", Process: of, Runs: ran},
		{By: "policy:slow", Process: of, Runs: []task.RunRecord{{State: task.Ended, Reason: task.Expired}}},
		{By: "policy:slow", Process: of, Runs: []task.RunRecord{{State: task.Ended, Begin: at.Add(time.Hour)}}, GoesOn: true}, // silence began before
		{By: "policy:slow", Runs: ran}, // of an earlier version
		{By: "config", Process: of, Runs: ran, For: []task.Beneficiary{{By: "policy:busy", PID: 8, StartTicks: 80, At: at.Add(time.Minute)}}},
	}, func(policy string, id model.ProcessID, began time.Time) {
		list = append(list, restored{policy, id, began})
	})
	require.Equal(t, []restored{
		{"slow", model.ProcessID{PID: 7, StartTicks: 70}, at}, {"busy", model.ProcessID{PID: 8, StartTicks: 80}, at.Add(time.Minute)},
	}, list)
}
