// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// statusHost is a pipeline's host that keeps what is reported to it.
type statusHost struct {
	mu     sync.Mutex
	events []*componentstatus.Event // read it when the receiver has started
}

func (h *statusHost) GetExtensions() map[component.ID]component.Component { return nil }

func (h *statusHost) Report(event *componentstatus.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, event)
}

// awaitStart waits until the engine has started, or could not.
func awaitStart(r component.Component) { r.(*ebpfReceiver).starting.Wait() }

// seen is what was reported, as text.
func (h *statusHost) seen() (texts []string) {
	for _, e := range h.events {
		text := e.Status().String()
		if e.Err() != nil {
			text += ": " + e.Err().Error()
		}
		texts = append(texts, text)
	}
	return texts
}

func newProfiles(t *testing.T, cfg component.Config) xreceiver.Profiles {
	t.Helper()
	r, err := NewFactory().(xreceiver.Factory).CreateProfiles(t.Context(), receivertest.NewNopSettings(metadata.Type), cfg, consumertest.NewNop())
	require.NoError(t, err)
	return r
}

func TestShutdownWithoutStartAndTwice(t *testing.T) {
	r := newProfiles(t, createDefaultConfig())
	require.NoError(t, r.Shutdown(t.Context()))
	require.NoError(t, r.Shutdown(t.Context()))
}

// TestLevelsAreStatus checks that every pipeline hears of reduced sampling, also one that joins later.
func TestLevelsAreStatus(t *testing.T) {
	r := newProfiles(t, createDefaultConfig()).(*ebpfReceiver)
	first, second := &statusHost{}, &statusHost{}
	r.join(first)
	require.Empty(t, first.events)
	r.levelChanged(engine.LevelChange{Kind: "on_cpu", Level: 1, Effect: "samples every 18ms", Cause: "it is dear"})
	r.join(second)
	r.levelChanged(engine.LevelChange{Kind: "network", Level: 2, Effect: "captures the requests of one in 4 connections", Cause: "it is dearer"})
	r.levelChanged(engine.LevelChange{Kind: "network", Effect: "captures the requests of all connections", Cause: "there is room"})
	r.levelChanged(engine.LevelChange{Kind: "on_cpu", Effect: "samples every 9ms", Cause: "there is room"})
	want := []string{
		"StatusRecoverableError: on_cpu is reduced by 1 steps and samples every 18ms: it is dear",
		"StatusRecoverableError: network is reduced by 2 steps and captures the requests of one in 4 connections: it is dearer\n" +
			"on_cpu is reduced by 1 steps and samples every 18ms: it is dear",
		"StatusRecoverableError: on_cpu is reduced by 1 steps and samples every 18ms: it is dear",
		"StatusOK",
	}
	require.Equal(t, want, first.seen())
	require.Equal(t, want, second.seen())
}

// TestMissingKindIsStatus checks that a kind that cannot run is reported as component status, also when sampling is as configured again.
func TestMissingKindIsStatus(t *testing.T) {
	r := newProfiles(t, createDefaultConfig()).(*ebpfReceiver)
	host := &statusHost{}
	r.join(host)
	r.reportMissing(engine.Stats{Degraded: map[string]string{"cpu_hotplug": "no netlink"}})
	require.Empty(t, host.events)
	r.reportMissing(engine.Stats{
		Degraded: map[string]string{"cpu_hotplug": "no netlink", "off_cpu": "starting off_cpu: no hook"}, Missing: []string{"off_cpu"},
	})
	r.levelChanged(engine.LevelChange{Kind: "on_cpu", Level: 1, Effect: "samples every 18ms", Cause: "it is dear"})
	r.levelChanged(engine.LevelChange{Kind: "on_cpu", Effect: "samples every 9ms", Cause: "there is room"})
	require.Equal(t, []string{
		"StatusRecoverableError: starting off_cpu: no hook",
		"StatusRecoverableError: starting off_cpu: no hook\non_cpu is reduced by 1 steps and samples every 18ms: it is dear",
		"StatusRecoverableError: starting off_cpu: no hook",
	}, host.seen())
}

// TestUnavailableIsStatus checks that a part which is missing is reported once, with what was reported before.
func TestUnavailableIsStatus(t *testing.T) {
	r := newProfiles(t, createDefaultConfig()).(*ebpfReceiver)
	host := &statusHost{}
	r.join(host)
	r.levelChanged(engine.LevelChange{Kind: "on_cpu", Level: 1, Effect: "samples every 18ms", Cause: "it is dear"})
	r.unavailable(errors.New("requests are unavailable"))
	r.unavailable(errors.New("requests are unavailable"))
	require.Equal(t, []string{
		"StatusRecoverableError: on_cpu is reduced by 1 steps and samples every 18ms: it is dear",
		"StatusRecoverableError: requests are unavailable\non_cpu is reduced by 1 steps and samples every 18ms: it is dear",
	}, host.seen())
}

func TestNoIOInCreate(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.RootPath = "/none/of/this"
	r := newProfiles(t, cfg)
	host := &statusHost{}
	if err := r.Start(context.Background(), host); err != nil {
		require.NotErrorIs(t, err, errors.ErrUnsupported)
	}
	awaitStart(r)
	require.Len(t, host.events, 1)
	require.Equal(t, componentstatus.StatusPermanentError, host.events[0].Status())
	require.NoError(t, r.Shutdown(context.Background()))
}
