// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// observed is an engine and what it exported.
type observed struct {
	t      *testing.T
	engine *engine.Engine

	mu       sync.Mutex
	profiles []*model.Profile
}

// onCPU samples programs of these paths every millisecond.
func onCPU(paths ...string) engine.Config {
	config := engine.Config{
		RootPath:     "/",
		ScanInterval: 10 * time.Second,
		MemoryBytes:  256 << 20,
		CPUPercent:   100,
		Observe:      []observe.Plan{&oncpu.Options{Common: observe.Common{ReportInterval: time.Second}, Options: stacks.Options{KernelStacks: true, UserStacks: true, MaxDepth: 127}, Period: time.Millisecond}},
	}
	for _, path := range paths {
		config.Include = append(config.Include, process.Selector{Exe: path})
	}
	return config
}

// startEngine starts an engine that the test's end stops.
func startEngine(t *testing.T, config engine.Config) *observed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	if testbin.UnderRace {
		t.Skip("is timed: make test runs it without the race detector")
	}
	o := &observed{t: t}
	e, err := engine.Start(t.Context(), config, engine.Hooks{Profiles: o.put, Level: func(engine.LevelChange) {}}, zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)))
	require.NoError(t, err)
	o.engine = e
	t.Cleanup(func() { o.end() })
	return o
}

func (o *observed) put(profiles []*model.Profile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.profiles = append(o.profiles, profiles...)
}

// end stops the engine and returns all that it exported.
func (o *observed) end() []*model.Profile {
	if o.engine != nil {
		require.NoError(o.t, o.engine.Shutdown())
		o.engine = nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.profiles
}

// exported returns what was exported so far.
func (o *observed) exported() []*model.Profile {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.profiles)
}

// take returns what was exported so far and forgets it.
func (o *observed) take() []*model.Profile {
	o.mu.Lock()
	defer o.mu.Unlock()
	profiles := o.profiles
	o.profiles = nil
	return profiles
}

// fold passes profiles as OTLP carries them.
func fold(t *testing.T, profiles []*model.Profile, yield func(pdata.FoldedSample)) {
	t.Helper()
	message := pdata.NewBuilder("test", "").Profiles(profiles)
	require.NoError(t, pdata.Fold(message, func(s pdata.FoldedSample) error { yield(s); return nil }))
}
