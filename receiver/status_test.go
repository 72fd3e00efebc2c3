// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
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
type statusHost struct{ events []*componentstatus.Event }

func (h *statusHost) GetExtensions() map[component.ID]component.Component { return nil }
func (h *statusHost) Report(event *componentstatus.Event)                 { h.events = append(h.events, event) }

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

// TestLevelsAreStatus holds that every pipeline hears of reduced sampling, also one that joins later.
func TestLevelsAreStatus(t *testing.T) {
	r := newProfiles(t, createDefaultConfig()).(*ebpfReceiver)
	first, second := &statusHost{}, &statusHost{}
	r.join(first)
	require.Empty(t, first.events)
	r.levelChanged(1, "it is dear")
	r.join(second)
	r.levelChanged(2, "it is dearer")
	r.levelChanged(0, "there is room")
	want := []string{
		"StatusRecoverableError: sampling is reduced by 1 steps: it is dear",
		"StatusRecoverableError: sampling is reduced by 2 steps: it is dearer",
		"StatusOK",
	}
	require.Equal(t, want, first.seen())
	require.Equal(t, want, second.seen())
}

// TestMissingKindIsStatus holds that a kind that cannot run is told, also when sampling is as configured again.
func TestMissingKindIsStatus(t *testing.T) {
	r := newProfiles(t, createDefaultConfig()).(*ebpfReceiver)
	host := &statusHost{}
	r.join(host)
	r.reportMissing(engine.Stats{Degraded: map[string]string{"cpu_hotplug": "no netlink"}})
	require.Empty(t, host.events)
	r.reportMissing(engine.Stats{
		Degraded: map[string]string{"cpu_hotplug": "no netlink", "off_cpu": "starting off_cpu: no hook"}, Missing: []string{"off_cpu"},
	})
	r.levelChanged(1, "it is dear")
	r.levelChanged(0, "there is room")
	require.Equal(t, []string{
		"StatusRecoverableError: starting off_cpu: no hook",
		"StatusRecoverableError: sampling is reduced by 1 steps: it is dear",
		"StatusRecoverableError: starting off_cpu: no hook",
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
	require.Len(t, host.events, 1)
	require.Equal(t, componentstatus.StatusPermanentError, host.events[0].Status())
	require.NoError(t, r.Shutdown(context.Background()))
}
