// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// remembering is an engine that observes memory alone: page faults where distance is 0. plain is for kernels that have less
// than the one at hand.
func remembering(t *testing.T, distance uint64, plain bool, include ...process.Selector) *observed {
	t.Helper()
	config := configuration(0, include...)
	options := &memory.Options{
		Common: observe.Common{ReportInterval: 200 * time.Millisecond}, SampleBytes: setting.ByteSize(distance), Live: true, Plain: plain,
	}
	if distance > 0 {
		options.Source = memory.SourceMalloc
	}
	config.Observe = []observe.Plan{options}
	return begin(t, config)
}

// stepper is a helper program that goes on at each line that it is given.
type stepper struct {
	*exec.Cmd
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Scanner
}

// steps starts a helper program with more environment.
func steps(t *testing.T, path string, environment ...string) *stepper {
	t.Helper()
	s := &stepper{Cmd: exec.Command(path), t: t}
	s.Env = append(os.Environ(), environment...)
	var err error
	s.in, err = s.StdinPipe()
	require.NoError(t, err)
	out, err := s.StdoutPipe()
	require.NoError(t, err)
	s.out = bufio.NewScanner(out)
	require.NoError(t, s.Start())
	t.Cleanup(func() {
		_ = s.Process.Kill() // it may have ended
		_ = s.Wait()
	})
	return s
}

// step lets it go on until it prints a line that begins with end, and returns the numbers of each line by its first word.
func (s *stepper) step(end string) map[string][]int64 {
	s.t.Helper()
	_, err := io.WriteString(s.in, "\n")
	require.NoError(s.t, err)
	lines := map[string][]int64{}
	for s.out.Scan() {
		words := strings.Fields(s.out.Text())
		if words[0] == end {
			return lines
		}
		for _, word := range words[1:] {
			n, err := strconv.ParseInt(word, 10, 64)
			require.NoError(s.t, err)
			lines[words[0]] = append(lines[words[0]], n)
		}
	}
	require.NoError(s.t, s.out.Err())
	require.FailNow(s.t, "the program ended before it printed "+end)
	return nil
}

// attached waits until functions of programs are looked at, at least the given number, and returns how many. They are attached to one by one:
// all are when there are no more for a second.
func (o *observed) attached(least int) (functions int) {
	o.t.Helper()
	functions = o.attachedTo("memory", least-1)
	o.unwound()
	return functions
}

// attachedTo waits until a kind has attached to more, and returns to how many when there are no more for a second.
func (o *observed) attachedTo(kind string, before int) (functions int) {
	o.t.Helper()
	since := time.Now()
	require.Eventually(o.t, func() bool {
		if now := o.Stats().Attached[kind]; now != functions {
			functions, since = now, time.Now()
		}
		return functions > before && time.Since(since) > time.Second
	}, time.Minute, 10*time.Millisecond)
	return functions
}

// warmed waits until the programs that were sampled have unwind tables.
func (o *observed) warmed() {
	o.t.Helper()
	o.reportNow()
	o.unwound()
}

// unwound waits until the unwind tables that are wanted are there: a stack before that may end at its first frame.
func (o *observed) unwound() {
	o.t.Helper()
	require.Eventually(o.t, o.unwinding.idle, time.Minute, time.Millisecond)
}

// uses sums values by the function in which a stack is, of those that are asked for.
func uses(profiles []*model.Profile, sampleType string, functions map[string][]int64) map[string][2]int64 {
	sums := map[string][2]int64{}
	for _, p := range profiles {
		if p.SampleTypes[0].Type != sampleType {
			continue
		}
		for _, one := range p.Samples {
			for name := range functions {
				if passes(one.Frames, name) {
					sum := sums[name]
					for i := range sum {
						sum[i] += one.Values[i]
					}
					sums[name] = sum
				}
			}
		}
	}
	return sums
}

// passes reports whether a stack has a function in it, inlined or not.
func passes(frames []*model.Frame, function string) bool {
	return slices.ContainsFunc(frames, func(f *model.Frame) bool {
		return slices.ContainsFunc(f.Lines, func(l model.Line) bool { return l.Function.Name == function })
	})
}

// inUse is what is in use of a program now; nothing where no profile says so.
func (o *observed) inUse(path string, functions map[string][]int64) map[string][2]int64 {
	before := len(o.of(runs(path)))
	o.reportNow()
	o.named()
	var last []*model.Profile
	for _, p := range o.of(runs(path))[before:] {
		if p.SampleTypes[0].Type == "inuse_space" && (len(last) == 0 || !p.Start.Before(last[0].Start)) {
			last = []*model.Profile{p}
		}
	}
	return uses(last, "inuse_space", functions)
}

// TestAllocators samples every call of each function of the malloc family, of every library: each call is counted once,
// though one is built on the other, and what was not freed is in use.
func TestAllocators(t *testing.T) {
	needRoot(t)
	if emulated {
		t.Skip("takes minutes on emulated CPUs; what differs between kernels is tested by observe/memory")
	}
	allocs := testbin.C(t, "testdata/allocs.c")
	for name, c := range map[string]struct {
		compiler, preload string
		plain             bool
		least             int
	}{
		"glibc":                 {"", "", false, 12},
		"glibc static":          {"gcc", "", false, 12},
		"musl":                  {"musl-gcc", "", false, 10},
		"jemalloc":              {"", "libjemalloc.so.2", false, 14},
		"tcmalloc":              {"", "libtcmalloc_minimal.so.4", false, 14},
		"glibc, no sessions":    {"", "", true, 12},
		"musl, no sessions":     {"musl-gcc", "", true, 10},
		"jemalloc, no sessions": {"", "libjemalloc.so.2", true, 14},
		"tcmalloc, no sessions": {"", "libtcmalloc_minimal.so.4", true, 14},
	} {
		// One library shows that older kernels' way counts the same, musl that a static one does, and jemalloc one that is preloaded.
		if !inLongForm() && (c.plain && name != "glibc, no sessions" || c.preload == "libtcmalloc_minimal.so.4" || name == "glibc static") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := copyFile(t, allocs, filepath.Join(t.TempDir(), "allocs"))
			if c.compiler != "" {
				needCompiler(t, c.compiler)
				flags := []string{"-static", "-O2", "-g", "-fno-builtin", "-fno-optimize-sibling-calls", "-fomit-frame-pointer"}
				out, err := exec.Command(c.compiler, append(flags, "-o", path, "testdata/allocs.c")...).CombinedOutput()
				require.NoError(t, err, string(out))
			}
			var environment []string
			if c.preload != "" {
				environment = append(environment, "NO_PVALLOC=1", "LD_PRELOAD="+preloadable(t, c.preload))
			}
			e := remembering(t, 1, c.plain, process.Selector{Exe: path})
			p := steps(t, path, environment...)
			e.attached(3)
			p.step("warm")
			e.warmed()
			truth := p.step("done")
			inUse := e.inUse(path, truth)
			p.step("freed")
			freed := e.inUse(path, truth)
			e.end()
			allocated := uses(e.of(runs(path)), "alloc_space", truth)
			require.GreaterOrEqual(t, len(truth), c.least)
			for function, want := range truth {
				require.Equal(t, [2]int64{want[1], want[0]}, allocated[function], "%s allocates", function)
				require.Equal(t, [2]int64{want[3], want[2]}, inUse[function], "%s has in use", function)
				require.Zero(t, freed[function], "%s has in use when all was freed", function)
			}
			t.Logf("%d functions, lost %v", len(truth), e.Stats().Lost)
		})
	}
}

func needCompiler(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("no compiler: %v", err)
	}
}

// preloadable finds a library where Debian puts it.
func preloadable(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/*/" + name)
	require.NoError(t, err)
	if len(found) == 0 {
		t.Skipf("%s is not installed", name)
	}
	return found[0]
}

// TestNotAttached holds that a file that cannot be attached to is counted, and named with its process in a warning.
func TestNotAttached(t *testing.T) {
	needRoot(t)
	dependsOnKernel(t, false)
	mapper := testbin.C(t, "testdata/mapper.c")
	whole, err := os.ReadFile(mapper)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "half.so")
	require.NoError(t, os.WriteFile(file, whole[:len(whole)/2], 0o755))
	e := remembering(t, 1<<20, false, process.Selector{Exe: mapper})
	p := launch(t, mapper, file, endless)
	const warning = "Some allocations are not seen"
	require.Eventually(t, func() bool { return e.logs.FilterMessage(warning).Len() > 0 }, time.Minute, 10*time.Millisecond)
	logged := e.logs.FilterMessage(warning).All()[0]
	require.Equal(t, zap.WarnLevel, logged.Level)
	require.Contains(t, logged.ContextMap()["error"], fmt.Sprintf("attaching to the allocator in %s of process %d: ", file, p.Process.Pid))
	p.kill()
	require.EqualValues(t, 1, e.Stats().Lost[LossKey{"memory", "not_attached"}])
	require.Equal(t, 1, e.logs.FilterMessage(warning).Len(), "once for all that the file says")
}

// TestNobodyToAttachTo holds that programs that end before they are attached to are no failures.
func TestNobodyToAttachTo(t *testing.T) {
	needRoot(t)
	needPromptness(t)
	path := copyFile(t, "/bin/true", filepath.Join(t.TempDir(), "moment"))
	e := remembering(t, 1<<20, false, process.Selector{Exe: path})
	for range 200 {
		require.NoError(t, exec.Command(path).Run())
	}
	require.Zero(t, e.Stats().Lost[LossKey{"memory", "not_attached"}], "%v", e.logs.All())
	require.Zero(t, e.logs.FilterMessage("Some allocations are not seen").Len(), "%v", e.logs.All())
}
