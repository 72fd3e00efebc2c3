// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// heldPlan is a plan of network that waits in the middle of its start.
type heldPlan struct {
	network.Plan
	begun chan struct{}
	going <-chan struct{}
}

func (p *heldPlan) Start(env observe.Environment) (observe.Started, error) {
	p.begun <- struct{}{}
	<-p.going
	return p.Plan.Start(env)
}

// heldUp returns a plan of network that waits in the middle of its start until proceed is called.
func heldUp(t *testing.T) (plan *heldPlan, loading <-chan struct{}, proceed func()) {
	t.Helper()
	begun, going := make(chan struct{}, 16), make(chan struct{})
	proceed = sync.OnceFunc(func() { close(going) })
	t.Cleanup(proceed)
	plan = &heldPlan{Plan: network.Plan{Common: observe.Common{ReportInterval: time.Second}}, begun: begun, going: going}
	return plan, begun, proceed
}

// TestStartsDoNotWaitForEachOther holds that an observation begins, reports and ends while another one is being
// loaded, which may take long; that those who want the latter share it; and that nothing of either is left.
func TestStartsDoNotWaitForEachOther(t *testing.T) {
	guest.SameOnEveryKernel(t)
	needRoot(t)
	busy := launch(t, testbin.C(t, "testdata/chain.c"), endless, "-")
	e := begin(t, onDemand())
	e.warmUp(busy)
	before, known := bpfFiles(t), e.identity(busy)
	plan, loading, proceed := heldUp(t)

	var mu sync.Mutex
	var slow []task.Observation
	var starting sync.WaitGroup
	for _, id := range []string{"slow", "slow, too"} {
		starting.Go(func() {
			run, err := e.Start(task.Spec{TaskID: id, Options: plan, Processes: []*model.Process{known}})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				slow = append(slow, run)
			}
		})
	}
	<-loading
	quick := e.ask("quick", onCPU(5*time.Millisecond), known)
	e.awaitSamples(busy, 10, func(p *model.Profile) bool { return p.TaskID == "quick" })
	_, err := quick.Stop()
	require.NoError(t, err)
	require.Zero(t, e.Stats().Attached["network"], "it is being loaded still")
	require.Empty(t, loading, "it is loaded once for both")

	proceed()
	starting.Wait()
	require.Len(t, slow, 2)
	require.Positive(t, e.Stats().Attached["network"])
	for _, run := range slow {
		_, err := run.Stop()
		require.NoError(t, err)
	}
	require.Zero(t, e.Stats().Attached["network"])
	require.Equal(t, before, bpfFiles(t), "nothing of it is left")
}

// TestShutdownAwaitsStarts holds that an engine which is shut down while an observation is being loaded leaves nothing of it.
func TestShutdownAwaitsStarts(t *testing.T) {
	guest.SameOnEveryKernel(t)
	needRoot(t)
	before := bpfFiles(t)
	busy := launch(t, testbin.C(t, "testdata/chain.c"), endless, "-")
	e := begin(t, onDemand())
	known := e.identity(busy)
	plan, loading, proceed := heldUp(t)
	var starting, ending sync.WaitGroup
	var slow error
	starting.Go(func() {
		_, slow = e.Start(task.Spec{TaskID: "slow", Options: plan, Processes: []*model.Process{known}})
	})
	<-loading
	ending.Go(e.end)
	proceed()
	starting.Wait()
	ending.Wait()
	require.NoError(t, slow)
	_, err := e.Start(task.Spec{TaskID: "late", Options: onCPU(time.Second), Processes: []*model.Process{known}})
	require.ErrorIs(t, err, errStopped)
	require.Equal(t, before, bpfFiles(t))
}
