// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// finds is an observation that has seen what a test says.
type finds struct {
	observe.Observation
	model.Findings
}

func (f finds) Report(time.Time) model.Findings { return f.Findings }

// TestFindingsGoToTheirHooks holds that each signal goes its own way, nothing empty is passed on, and what no pipeline takes is dropped.
func TestFindingsGoToTheirHooks(t *testing.T) {
	profiles, metrics := []*model.Profile{{Kind: "on_cpu"}}, []*model.Metrics{{Time: time.Unix(1, 0)}}
	var gotProfiles [][]*model.Profile
	var gotMetrics [][]*model.Metrics
	e := &Engine{hooks: Hooks{
		Profiles: func(p []*model.Profile) { gotProfiles = append(gotProfiles, p) },
		Metrics:  func(m []*model.Metrics) { gotMetrics = append(gotMetrics, m) },
	}}
	for _, found := range []model.Findings{{}, {Profiles: profiles}, {Metrics: metrics}, {Profiles: profiles, Metrics: metrics}} {
		e.report(&running{Observation: finds{Findings: found}}, time.Now())
	}
	require.Equal(t, [][]*model.Profile{profiles, profiles}, gotProfiles)
	require.Equal(t, [][]*model.Metrics{metrics, metrics}, gotMetrics)

	unheard := &Engine{}
	unheard.report(&running{Observation: finds{Findings: model.Findings{Profiles: profiles, Metrics: metrics}}}, time.Now())
}
