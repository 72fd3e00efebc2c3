// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// TestStartIsGivenUp holds that a start ends with its context while the network's programs are loaded, that what was sampled until then
// is reported by Shutdown, and that nothing is left.
func TestStartIsGivenUp(t *testing.T) {
	needRoot(t)
	guest.SameOnEveryKernel(t)
	p := launch(t, testbin.C(t, "testdata/chain.c"), endless, "-")
	untilInTime(t, func() bool { return startIsGivenUp(t, p) })
}

// untilInTime tries until a context ends before the load does. On a machine that stood still it may end later.
func untilInTime(t *testing.T, try func() bool) {
	t.Helper()
	for began := time.Now(); !try(); {
		require.Less(t, time.Since(began), time.Minute, "a load is never given up")
	}
}

// startIsGivenUp reports whether the start has left the network out.
func startIsGivenUp(t *testing.T, p *program) bool {
	config := configuration(time.Millisecond)
	planOf[*oncpu.Options](config).ReportInterval = 10 * time.Minute
	config.Observe = append(config.Observe, &network.Plan{Common: observe.Common{ReportInterval: time.Second}, Requests: true, BufferBytes: 1 << 20})
	core, logs := observer.New(zap.InfoLevel)
	o := &observed{t: t, logs: logs}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan time.Time, 1)
	go func() {
		for logs.FilterMessageSnippet("on_cpu: sampling").Len() == 0 {
			time.Sleep(time.Millisecond)
		}
		asked <- time.Now()
		cancel()
	}()
	var err error
	o.Engine, err = Start(ctx, config, Hooks{Profiles: o.put, Level: func(LevelChange) {}}, zap.New(core))
	require.NoError(t, err)
	t.Cleanup(o.end)
	// A verification cannot be interrupted: that of one program may go to its end.
	require.Less(t, time.Since(<-asked), time.Minute)
	require.Positive(t, o.Stats().Attached["on_cpu"])
	_, loaded := o.Stats().Attached["network"]
	worksOn(t, p, 100*time.Millisecond)
	o.end()
	require.Positive(t, add(o.of(isPID(p.Process.Pid))).samples)
	requireNothingLeft(t)
	return !loaded
}

// worksOn waits until a program has used more CPU time.
func worksOn(t *testing.T, p *program, more time.Duration) {
	t.Helper()
	used := func() time.Duration {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", p.Process.Pid))
		require.NoError(t, err)
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		require.NoError(t, err)
		return time.Duration(ns)
	}
	before := used()
	require.Eventually(t, func() bool { return used() >= before+more }, time.Minute, time.Millisecond)
}

// requireNothingLeft waits for the verifier to return, and holds that what it verified is freed.
func requireNothingLeft(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 1<<20)
	require.Eventually(t, func() bool {
		return !bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("kernel.(*Loader)")) && openBPF(t) == 0
	}, time.Minute, 10*time.Millisecond)
}

// TestNothingStartsAfterwards holds that a start whose context is done before anything samples is an error, and leaves nothing.
func TestNothingStartsAfterwards(t *testing.T) {
	needRoot(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e, err := Start(ctx, configuration(time.Millisecond), none(), zap.NewNop())
	require.ErrorIs(t, err, kernel.ErrGivenUp)
	require.Nil(t, e)
	requireNothingLeft(t)
}

// TestTaskIsGivenUp holds that a task whose programs are loaded does not keep the engine from ending.
func TestTaskIsGivenUp(t *testing.T) {
	needRoot(t)
	guest.SameOnEveryKernel(t)
	untilInTime(t, func() bool { return taskIsGivenUp(t) })
}

// taskIsGivenUp reports whether the start of the task was given up.
func taskIsGivenUp(t *testing.T) bool {
	config := configuration(time.Millisecond, process.Selector{PID: math.MaxInt32})
	config.OnDemand, config.Observe = true, nil
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e, err := Start(ctx, config, none(), zap.NewNop())
	require.NoError(t, err)
	endLast(t, e)
	failed := make(chan error, 1)
	go func() {
		_, err := e.Start(task.Spec{TaskID: "1", Options: &network.Plan{Common: observe.Common{ReportInterval: time.Second}, Requests: true, BufferBytes: 1 << 20}})
		failed <- err
	}()
	require.Eventually(t, func() bool { return e.demand.anyShared(tracksSockets) }, time.Minute, time.Millisecond)
	asked := time.Now()
	cancel()
	err = <-failed
	if err != nil {
		require.ErrorIs(t, err, kernel.ErrGivenUp)
	}
	require.NoError(t, e.Shutdown())
	require.Less(t, time.Since(asked), time.Minute)
	requireNothingLeft(t)
	return err != nil
}
