// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// crowd has so many threads more in this process until the function is called, which returns when they have ended.
func crowd(threads int) (disperse func()) {
	held := make(chan struct{})
	var there, done sync.WaitGroup
	there.Add(threads)
	for range threads {
		done.Go(func() {
			runtime.LockOSThread() // it ends with the goroutine
			there.Done()
			<-held
		})
	}
	there.Wait()
	return func() {
		close(held)
		done.Wait()
	}
}

// TestPoliciesNeverFire holds that a spike shorter than count fires nothing, though a longer one does, nor does what a process used
// long ago; and that a rule which holds on and on fires once in each silence.
func TestPoliciesNeverFire(t *testing.T) {
	needRoot(t)
	guest.TakesLong(t)
	was := exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; read x")
	stdin, err := was.StdinPipe()
	require.NoError(t, err)
	stdout, err := was.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, was.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = was.Wait() // reading has failed
	})
	_, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)

	const threads, silence = 64, 1500 * time.Millisecond
	self := os.Getpid()
	var mu sync.Mutex
	var again []time.Time
	a := &asked{}
	a.answer = func(r task.Request) []task.Outcome {
		if r.Name == "again" {
			mu.Lock()
			defer mu.Unlock()
			again = append(again, time.Now())
		}
		return []task.Outcome{{Kind: "on_cpu", TaskID: "1", State: task.Started}}
	}
	fired := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(again)
	}
	often := when("again", policy.Rule{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 3, Count: 1})
	often.Silence, often.Targets = silence, []process.Selector{{PID: uint32(self)}}
	wasBusy := when("was busy", policy.Rule{Monitor: monitor.ProcessCPU, Threshold: 2 / float64(runtime.NumCPU()), Period: 10, Count: 2})
	wasBusy.Targets = []process.Selector{{PID: uint32(was.Process.Pid)}}
	o := watching(t, a, []Policy{
		often, wasBusy, when("crowded", policy.Rule{Monitor: monitor.ProcessThreadCount, Threshold: threads, Period: 10, Count: 3}),
	}, process.Selector{PID: uint32(self)}, process.Selector{PID: uint32(was.Process.Pid)})
	require.Eventually(t, func() bool { return fired() > 1 }, patience, 20*time.Millisecond, "it is watched")

	began := time.Now()
	disperse := crowd(threads)
	time.Sleep(500 * time.Millisecond)
	disperse()
	require.Eventually(t, func() bool { // the kernel's threads end after the goroutines
		list, err := os.ReadDir("/proc/self/task")
		return err == nil && len(list) < threads
	}, patience, time.Millisecond)
	spike := time.Since(began)
	before := fired()
	require.Eventually(t, func() bool { return fired() > before }, patience, 20*time.Millisecond, "the seconds of the spike were looked at")
	if spike < time.Second { // else this machine stood still, and it was none
		require.Empty(t, a.of("crowded", self), "one second has ended in it at most, and one before was looked at late")
	}
	disperse = crowd(threads)
	require.Eventually(t, func() bool { return len(a.of("crowded", self)) == 1 }, patience, 20*time.Millisecond)
	disperse()
	o.end()
	require.Empty(t, a.of("was busy", was.Process.Pid))
	for i := 1; i < len(again); i++ {
		require.GreaterOrEqual(t, again[i].Sub(again[i-1]), silence-200*time.Millisecond, "once in each silence")
	}
}
