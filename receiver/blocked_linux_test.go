// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package receiver

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/collector/receiver/xreceiver"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// TestBlockedConsumerStallsNothing checks that policies look on and fire, and that what they start samples from its begin to its end,
// while the consumer of profiles takes nothing; and that it gets all of it when it does again.
func TestBlockedConsumerStallsNothing(t *testing.T) { require.Positive(t, sampledWhileBlocked(t)) }

// TestMeasureBlockedConsumerStallsNothing holds that it samples all the time.
func TestMeasureBlockedConsumerStallsNothing(t *testing.T) {
	require.Greater(t, sampledWhileBlocked(t), int64(50), "of five seconds")
}

// sampledWhileBlocked returns how many samples of a busy process a task took while the consumer took nothing.
func sampledWhileBlocked(t *testing.T) int64 {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	lazy := exec.Command("sh", "-c", "read x; while :; do :; done")
	work, err := lazy.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, lazy.Start())
	t.Cleanup(func() {
		_ = lazy.Process.Kill() // it runs for ever
		_ = lazy.Wait()         // it was killed
	})

	config := createDefaultConfig().(*Config)
	config.Limits.CPUPercent = 100 // whatever it costs, it samples as configured
	delete(config.Observe.listed, network.Name)
	onCPUOf(config).ReportInterval = 10 * time.Second // of all processes: there is always something to report; few wait for the consumer
	var run RunConfig
	require.NoError(t, run.UnmarshalText([]byte("on_cpu")))
	runOnCPU(&run).ReportInterval = time.Minute // once, at its end
	config.Policies = []PolicyConfig{{
		Name: "busy", Targets: []SelectorConfig{{PID: uint32(lazy.Process.Pid)}}, Run: []RunConfig{run}, Duration: 5 * time.Second, Silence: time.Hour,
		When: []RuleConfig{{Monitor: "process_cpu", Threshold: threshold(10 / float64(runtime.NumCPU())), Period: 10 * time.Second, Count: 3}},
	}}
	require.NoError(t, config.Validate())

	sink, logs := &consumertest.ProfilesSink{}, &consumertest.LogsSink{}
	held, release := make(chan struct{}, 1), make(chan struct{})
	let := sync.OnceFunc(func() { close(release) })
	blocked, err := xconsumer.NewProfiles(func(ctx context.Context, profiles pprofile.Profiles) error {
		select {
		case held <- struct{}{}:
		default:
		}
		select {
		case <-release:
		case <-ctx.Done():
			return ctx.Err()
		}
		return sink.ConsumeProfiles(ctx, profiles)
	})
	require.NoError(t, err)
	factory, settings, host := NewFactory(), receivertest.NewNopSettings(metadata.Type), &statusHost{}
	r, err := factory.(xreceiver.Factory).CreateProfiles(t.Context(), settings, config, blocked)
	require.NoError(t, err)
	_, err = factory.CreateLogs(t.Context(), settings, config, logs)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), host))
	stop := sync.OnceValue(func() error { return r.Shutdown(context.Background()) })
	t.Cleanup(func() { let(); _ = stop() }) // it has stopped unless the test failed
	awaitStart(r)
	for _, e := range host.events {
		require.NotEqual(t, componentstatus.StatusPermanentError, e.Status(), "%v", e.Err())
	}
	select {
	case <-held:
	case <-time.After(2 * time.Minute):
		t.Fatal("no profile was exported")
	}

	_, err = io.WriteString(work, "now\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(exportedEvents(logs)["ebpf.task.finished"]) > 0 }, 2*time.Minute, 50*time.Millisecond)
	events := exportedEvents(logs)
	require.Len(t, events["ebpf.profiling.triggered"], 1)
	finished := events["ebpf.task.finished"][0]
	require.Equal(t, "duration", finished["ebpf.task.end.reason"])
	require.Empty(t, sink.AllProfiles(), "the consumer has taken nothing yet")

	let()
	require.Eventually(t, func() bool {
		return taskSamples(sink, finished["ebpf.task.id"].(string)) == finished["ebpf.task.samples"]
	}, 60*time.Second, 50*time.Millisecond, "nothing of it was lost")
	require.NoError(t, stop())
	return finished["ebpf.task.samples"].(int64)
}

// taskSamples is how many samples profiles have of a task.
func taskSamples(sink *consumertest.ProfilesSink, id string) (samples int64) {
	for _, message := range sink.AllProfiles() {
		table, texts := message.Dictionary().AttributeTable(), message.Dictionary().StringTable()
		for _, resource := range message.ResourceProfiles().All() {
			for _, p := range resource.ScopeProfiles().At(0).Profiles().All() {
				of := false
				for _, i := range p.AttributeIndices().All() {
					of = of || texts.At(int(table.At(int(i)).KeyStrindex())) == "ebpf.task.id" && table.At(int(i)).Value().Str() == id
				}
				for _, sample := range p.Samples().All() {
					for _, n := range sample.Values().All() {
						if of {
							samples += n
						}
					}
				}
			}
		}
	}
	return samples
}
