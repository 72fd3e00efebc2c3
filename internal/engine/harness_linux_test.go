// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// emulated says that the kernel runs on emulated CPUs, which are slow.
var emulated = guest.Running()

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
}

// observed is an engine and what it has exported.
type observed struct {
	*Engine
	t    *testing.T
	logs *observer.ObservedLogs

	mu       sync.Mutex
	profiles []*model.Profile
	metrics  []*model.Metrics
	exited   []model.ProcessID
	stopped  bool
}

func configuration(period time.Duration, include ...process.Selector) Config {
	return Config{
		RootPath:     "/",
		Include:      include,
		ScanInterval: 10 * time.Second,
		Observe:      []observe.Plan{&oncpu.Options{Common: observe.Common{ReportInterval: time.Second}, Options: stacks.Options{KernelStacks: true, UserStacks: true, MaxDepth: 127}, Period: period}},
		MemoryBytes:  256 << 20,
		CPUPercent:   100,
	}
}

// planOf is the plan of a configuration that has this type.
func planOf[P observe.Plan](c Config) P {
	for _, plan := range c.Observe {
		if found, ok := plan.(P); ok {
			return found
		}
	}
	panic("there is no such plan")
}

// begin starts an engine that the test's end stops.
func begin(t *testing.T, config Config) *observed {
	t.Helper()
	return beginAsking(t, config, nil)
}

// beginAsking is begin where policies ask for tasks.
func beginAsking(t *testing.T, config Config, ask func(task.Request) []task.Outcome) *observed {
	t.Helper()
	needRoot(t)
	core, logs := observer.New(zap.InfoLevel)
	o := &observed{t: t, logs: logs}
	e, err := Start(t.Context(), config, Hooks{Profiles: o.put, Metrics: o.putMetrics, Exited: o.putExited, Ask: ask, Level: func(LevelChange) {}}, zap.New(core))
	require.NoError(t, err)
	o.Engine = e
	t.Cleanup(o.end)
	return o
}

// endLast ends an engine that a failed test leaves running: the tests after it count what is left.
func endLast(t *testing.T, e *Engine) {
	t.Helper()
	t.Cleanup(func() { _ = e.Shutdown() }) // an error if the engine has ended
}

// put keeps profiles.
func (o *observed) put(profiles []*model.Profile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range profiles {
		for i := range p.Samples {
			p.Samples[i].Frames = slices.Clone(p.Samples[i].Frames) // those of memory in use are in the next report, too
		}
	}
	o.profiles = append(o.profiles, profiles...)
}

// settled is a profile with the names that are known by now. A busy machine finds some of them after the export.
func settled(p *model.Profile) *model.Profile {
	now := *p
	now.Samples = slices.Clone(p.Samples)
	for i := range now.Samples {
		frames := slices.Clone(now.Samples[i].Frames)
		for k, f := range frames {
			frames[k] = f.Settled()
		}
		now.Samples[i].Frames = frames
	}
	return &now
}

// reportNow exports all that was observed before.
func (o *observed) reportNow() {
	o.t.Helper()
	require.NoError(o.t, o.inLoop(func() error {
		for _, r := range o.running {
			if err := r.Drain(); err != nil {
				return err
			}
			o.report(r, time.Now())
		}
		return nil
	}))
}

// named waits until what was exported has its names.
func (o *observed) named() {
	o.t.Helper()
	require.Eventually(o.t, func() bool { return isClosed(o.symbols.Settled()) }, time.Minute, time.Millisecond)
}

// await waits until what was exported of a process fits.
func (o *observed) await(pid int, fits func(sum) bool) {
	o.t.Helper()
	var got sum
	defer func() {
		if o.t.Failed() {
			o.t.Logf("%s, %v; lost %v", got, got.stacks, o.Stats().Lost)
		}
	}()
	require.Eventually(o.t, func() bool {
		got = add(o.of(isPID(pid)))
		return fits(got)
	}, time.Minute, 50*time.Millisecond)
}

// passing fits what has a sample with these functions in this order, next to each other.
func passing(chain string) func(sum) bool {
	return func(s sum) bool { return s.within(chain) > 0 }
}

func (o *observed) putMetrics(metrics []*model.Metrics) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.metrics = append(o.metrics, metrics...)
}

func (o *observed) putExited(id model.ProcessID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.exited = append(o.exited, id)
}

// end stops the engine; all that was seen is in profiles then.
func (o *observed) end() {
	if !o.stopped {
		o.stopped = true
		require.NoError(o.t, o.Shutdown())
		require.Empty(o.t, o.logs.FilterLevelExact(zap.ErrorLevel).All())
	}
}

// of returns the profiles that fit.
func (o *observed) of(fits func(*model.Process) bool) []*model.Profile {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []*model.Profile
	for _, p := range o.profiles {
		if fits(p.Process) {
			list = append(list, settled(p))
		}
	}
	return list
}

func isPID(pid int) func(*model.Process) bool {
	return func(p *model.Process) bool { return p.ID.PID == uint32(pid) }
}

func runs(path string) func(*model.Process) bool {
	return func(p *model.Process) bool { return p.Executable == path }
}

// sum adds profiles up.
type sum struct {
	samples int64
	time    time.Duration
	stacks  map[string]int64 // user frames with names, root first, parted by blanks
	errors  map[model.StackError]int64
}

func add(profiles []*model.Profile) sum {
	s := sum{stacks: map[string]int64{}, errors: map[model.StackError]int64{}}
	for _, p := range profiles {
		for _, one := range p.Samples {
			s.samples += one.Values[0]
			s.time += time.Duration(one.Values[0] * p.Period)
			s.stacks[names(one.Frames)] += one.Values[0]
			s.errors[one.Error] += one.Values[0]
		}
	}
	return s
}

func names(frames []*model.Frame) string {
	var list []string
	for i := len(frames) - 1; i >= 0; i-- {
		if f := frames[i]; f.Type != model.FrameKernel && len(f.Lines) > 0 {
			list = append(list, f.Lines[0].Function.Name)
		}
	}
	return strings.Join(list, " ")
}

// inLongForm reports whether tests run in their longer form, as by make test-long.
func inLongForm() bool { return os.Getenv("EBPFRECEIVER_LONG") != "" }

// within is the part of the samples whose stack has these functions in this order, next to each other.
func (s sum) within(chain string) float64 {
	n := int64(0)
	for stack, count := range s.stacks {
		if strings.Contains(" "+stack+" ", " "+chain+" ") {
			n += count
		}
	}
	return float64(n) / float64(max(s.samples, 1))
}

// program is a helper program that runs or ran.
type program struct {
	*exec.Cmd
	t     *testing.T
	out   bytes.Buffer
	began time.Time
	took  time.Duration
}

// endless is how many milliseconds a program works that is killed when it was seen.
const endless = "3600000"

func launch(t *testing.T, path string, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(path, args...), t: t, began: time.Now()}
	p.Stdout = &p.out
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill() // it may have ended
			_ = p.Wait()         // it was killed
		}
	})
	return p
}

// tabled is makeTables on emulated CPUs, where making tables takes as long as a program works. Its process is returned, 0 elsewhere.
func (o *observed) tabled(path string, args ...string) (pid int) {
	o.t.Helper()
	if !emulated {
		return 0
	}
	return o.makeTables(path, args...)
}

// makeTables lets the unwind tables of a program be made before the one is launched that is judged. With these arguments the program runs for
// long. Its process is returned.
func (o *observed) makeTables(path string, args ...string) (pid int) {
	o.t.Helper()
	p := launch(o.t, path, args...)
	require.Eventually(o.t, func() bool { return o.hasTables(p.Process.Pid) }, time.Minute, 100*time.Millisecond)
	p.kill()
	return p.Process.Pid
}

// hasTables reports whether a report of a process has stacks that tables led through.
func (o *observed) hasTables(pid int) bool {
	return slices.ContainsFunc(o.of(isPID(pid)), func(profile *model.Profile) bool {
		return slices.ContainsFunc(profile.Samples, func(one model.Sample) bool {
			return len(one.Frames) > 2 && (one.Error == model.StackWhole || one.Error == model.StackCut)
		})
	})
}

// kill ends a program that would run on.
func (p *program) kill() {
	p.t.Helper()
	require.NoError(p.t, p.Process.Kill())
	require.Error(p.t, p.Wait(), "it was killed")
	p.took = time.Since(p.began)
}

// end waits for it and returns the numbers that it printed.
func (p *program) end() []time.Duration {
	p.t.Helper()
	require.NoError(p.t, p.Wait(), "%s", p.Path)
	p.took = time.Since(p.began)
	var numbers []time.Duration
	for _, word := range strings.Fields(p.out.String()) {
		n, err := strconv.ParseInt(word, 10, 64)
		require.NoError(p.t, err)
		numbers = append(numbers, time.Duration(n))
	}
	return numbers
}

// dependsOnKernel skips what is the same on every kernel where the kernel is emulated: the tests would take too long there.
func dependsOnKernel(t *testing.T, yes bool) {
	t.Helper()
	if !yes {
		guest.SameOnEveryKernel(t)
	}
}

// needPromptness skips what needs the engine to read a process within the milliseconds that it lives or runs one program.
func needPromptness(t *testing.T) {
	t.Helper()
	if emulated {
		t.Skip("an emulated CPU is too slow to read so short a life; what the kernel reports of it is tested by lifecycle")
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// possible holds that a program that has ended was sampled, and for no longer than it ran; TestMeasure* compare the two.
func (p *program) possible(got sum, period time.Duration) {
	p.t.Helper()
	require.Positive(p.t, got.samples)
	// Each CPU has a timer of its own, and the program may change CPUs.
	require.LessOrEqual(p.t, got.time, time.Duration(runtime.NumCPU())*(p.took+2*period))
}

// near holds that a program was sampled for about the time that it worked; another test covers how exact it is.
func near(t *testing.T, want, got time.Duration) {
	t.Helper()
	tolerance := 0.3
	if emulated {
		tolerance = 0.9 // an emulated CPU stands still now and then, and its timer with it
	}
	require.InEpsilon(t, want.Seconds(), got.Seconds(), tolerance)
}

// copyFile copies a program to a path of its own.
func copyFile(t *testing.T, from, to string) string {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, 0o755))
	return to
}

func (s sum) String() string { return fmt.Sprintf("%d samples, %s, %v", s.samples, s.time, s.errors) }
