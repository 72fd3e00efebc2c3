// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func shell(script string, output io.Writer) Command {
	return Command{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, CPU: AnyCPU, Output: output}
}

func TestStartPinsAndWaits(t *testing.T) {
	var output bytes.Buffer
	command := shell("grep Cpus_allowed_list /proc/self/status", &output)
	command.CPU = 0
	p, err := Start(t.Context(), command)
	require.NoError(t, err)
	used, err := p.Wait()
	require.NoError(t, err)
	require.LessOrEqual(t, used, time.Since(p.Started()))
	require.Equal(t, "Cpus_allowed_list:\t0\n", output.String())

	var own unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &own))
	require.Positive(t, own.Count())
}

func TestWaitTellsHowItEnded(t *testing.T) {
	p, err := Start(t.Context(), shell("exit 3", nil))
	require.NoError(t, err)
	_, err = p.Wait()
	require.EqualError(t, err, "running script: exit status 3")
	require.NoError(t, p.Stop(), "what has ended is stopped")
}

func TestStartNamesWhatIsMissing(t *testing.T) {
	_, err := Start(t.Context(), Command{Name: "nothing", Path: filepath.Join(t.TempDir(), "no"), CPU: AnyCPU})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "starting nothing")
}

func TestStopAndCancelEndIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stopped, err := Start(ctx, Command{Name: "sleep", Path: "/bin/sleep", Args: []string{"60"}, CPU: AnyCPU})
	require.NoError(t, err)
	cancelled, err := Start(ctx, Command{Name: "sleep", Path: "/bin/sleep", Args: []string{"60"}, CPU: AnyCPU})
	require.NoError(t, err)
	require.NoError(t, stopped.Stop())
	cancel()
	select {
	case <-cancelled.Ended():
	case <-time.After(time.Minute):
		t.Fatal("it runs on after its context has ended")
	}
	require.ErrorIs(t, unix.Kill(stopped.PID(), 0), unix.ESRCH)
	require.ErrorIs(t, unix.Kill(cancelled.PID(), 0), unix.ESRCH)
}

func TestNice(t *testing.T) {
	p, err := Start(t.Context(), Command{Name: "sleep", Path: "/bin/sleep", Args: []string{"60"}, CPU: AnyCPU, Nice: 7})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Stop()) })
	// The system call counts from 40 downwards (getpriority(2), notes).
	level, err := unix.Getpriority(unix.PRIO_PROCESS, p.PID())
	require.NoError(t, err)
	require.Equal(t, 20-7, level)
	group, err := os.ReadFile("/proc/" + strconv.Itoa(p.PID()) + "/autogroup")
	if err == nil {
		require.Contains(t, string(group), "nice 7")
	}
}

// TestRenice checks that no thread of this process is left behind. Without privileges the level cannot be taken back: 1 does
// no harm.
func TestRenice(t *testing.T) {
	undo, err := Renice(0)
	require.NoError(t, err)
	require.NoError(t, undo(), "nothing to do")
	undo, err = Renice(1)
	require.NoError(t, err)
	threads, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		require.NoError(t, err)
		level, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
		if errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		require.NoError(t, err)
		require.Equal(t, 20-1, level)
		_ = unix.Setpriority(unix.PRIO_PROCESS, tid, 0)
	}
	require.NoError(t, undo())
}

// TestBusyKeepsItsTime checks that the programs end by themselves.
func TestBusyKeepsItsTime(t *testing.T) {
	load, used := busy(t)
	require.Positive(t, used)
	_, err := load.StartOne(t.Context(), "cobol", time.Second)
	require.EqualError(t, err, `starting the load: there is no program "cobol"`)
}

// TestMeasureBusy checks that they are as busy as they should be.
func TestMeasureBusy(t *testing.T) {
	_, used := busy(t)
	require.Greater(t, used, 50*time.Millisecond)
}

// busy runs a program for 300 ms, and returns its CPU time.
func busy(t *testing.T) (load *Busy, used time.Duration) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("the load in C needs gcc: ", err)
	}
	dir := t.TempDir()
	module, err := filepath.Abs("../../..")
	require.NoError(t, err)
	load, err = NewBusy(t.Context(), dir, module, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, load.Close()) })
	require.Subset(t, load.Names(), []string{"c", "go"})
	p, err := load.StartOne(t.Context(), "c", 300*time.Millisecond)
	require.NoError(t, err)
	used, err = p.Wait()
	require.NoError(t, err)
	require.Less(t, time.Since(p.Started()), time.Minute)
	return load, used
}

func TestRate(t *testing.T) {
	c := &Client{}
	var err error
	c.Process, err = Start(t.Context(), shell("echo 'Requests/sec:  182345.67'", &c.output))
	require.NoError(t, err)
	<-c.Ended()
	rate, err := c.Rate()
	require.NoError(t, err)
	require.Equal(t, 182345.67, rate)

	c = &Client{}
	c.Process, err = Start(t.Context(), shell("echo unable to connect", &c.output))
	require.NoError(t, err)
	<-c.Ended()
	_, err = c.Rate()
	require.ErrorContains(t, err, `no request rate in "unable to connect\n"`)
}

func TestWebAnswers(t *testing.T) {
	webRate(t, func(rate func() float64) {
		for began := time.Now(); rate() == 0; {
			require.Less(t, time.Since(began), time.Minute)
		}
	})
}

// TestMeasureWeb checks that the server answers as many requests as make a load.
func TestMeasureWeb(t *testing.T) {
	webRate(t, func(rate func() float64) { require.Greater(t, rate(), 100.0) })
}

// webRate passes a function that loads the web for a second and returns how many requests were answered in one.
func webRate(t *testing.T, judge func(rate func() float64)) {
	t.Helper()
	for _, needed := range []string{"nginx", "wrk"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip("the web load needs it: ", err)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("nginx writes its own folders as root")
	}
	web, err := StartWeb(t.Context(), t.TempDir(), 0)
	require.NoError(t, err)
	judge(func() float64 {
		client, err := web.Load(t.Context(), time.Minute)
		require.NoError(t, err)
		time.Sleep(time.Second)
		rate, err := client.Rate()
		require.NoError(t, err)
		return rate
	})
	require.NoError(t, web.Stop())
}

func TestWebAbsent(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := StartWeb(t.Context(), t.TempDir(), 0)
	require.ErrorIs(t, err, ErrAbsent)
}
