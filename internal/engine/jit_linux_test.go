// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestCompiledCode profiles a program that makes code while it runs, announces it as it goes, and knows how it spends its
// time: compiled frames are named, and lead on to frames of the program, which has no frame pointers.
func TestCompiledCode(t *testing.T) {
	compiledCode(t, func(t *testing.T, e *observed, jit, format string) {
		p := &program{Cmd: exec.Command(jit, "0", format, "by input"), t: t, began: time.Now()}
		p.Stdout = &p.out
		in, err := p.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, p.Start())
		t.Cleanup(func() { _ = os.Remove(perfMapOf(p)) })
		t.Cleanup(func() { _ = p.Process.Kill() }) // it has ended, unless the test failed
		for _, chains := range [][2]string{{"jit_outer jit_hot", "jit_outer jit_cold"}, {"jit_outer_again jit_hot_again", "jit_outer_again jit_cold_again"}} {
			e.await(p.Process.Pid, func(got sum) bool {
				return got.within("main work "+chains[0]) > 0 && got.within("main work "+chains[1]) > 0 && got.errors[model.StackWhole] > 0
			})
			_, err := in.Write([]byte("\n"))
			require.NoError(t, err)
		}
		p.end()
		e.end()
	})
}

// TestMeasureCompiledCode holds that compiled functions have their parts of the samples, and that all have names.
func TestMeasureCompiledCode(t *testing.T) {
	const caller = "main work "
	used, whole, share := 3*time.Second, 0.7, 0.15 // a busy machine makes the unwind tables late
	if inLongForm() {
		used, whole, share = 8*time.Second, 0.98, 0.04
	}
	compiledCode(t, func(t *testing.T, e *observed, jit, format string) {
		p := launch(t, jit, milliseconds(used), format)
		t.Cleanup(func() { _ = os.Remove(perfMapOf(p)) }) // the dump's folder goes anyway
		spent := p.end()
		e.end()
		got := add(e.of(runs(jit)))
		total := spent[0] + spent[1] + spent[2] + spent[3]
		t.Logf("%s; spent %v; lost %v; unnamed %v", got, spent, e.Stats().Lost, e.Stats().Unnamed)
		for i, chain := range []string{"jit_outer jit_hot", "jit_outer jit_cold", "jit_outer_again jit_hot_again", "jit_outer_again jit_cold_again"} {
			truth := spent[i].Seconds() / total.Seconds()
			require.InDelta(t, truth, got.within(caller+chain), share, "%s: %v", chain, got.stacks)
		}
		require.Greater(t, float64(got.errors[model.StackWhole])/float64(got.samples), whole, "stacks lead to the thread's first frame")
		require.Zero(t, e.Stats().Unnamed["anonymous"]+e.Stats().Unnamed["not_in_code_map"])
		require.Empty(t, e.Stats().SymbolErrors)
	})
}

// compiledCode has judge observe the program to its end.
func compiledCode(t *testing.T, judge func(t *testing.T, e *observed, jit, format string)) {
	t.Helper()
	needRoot(t)
	guest.SameOnEveryKernel(t)
	jit := testbin.C(t, "testdata/jit.c")
	for _, format := range []string{"map", "dump"} {
		t.Run(format, func(t *testing.T) {
			e := begin(t, configuration(2*time.Millisecond, process.Selector{Exe: jit}))
			t.Chdir(t.TempDir()) // where the dump is written
			judge(t, e, jit, format)
			f := frameOf(e.of(runs(jit)), "jit_hot")
			require.NotNil(t, f)
			require.Equal(t, model.FrameNative, f.Type)
			if format == "dump" {
				require.Equal(t, "jit.c", f.Lines[0].Function.Filename)
				require.EqualValues(t, 4711, f.Lines[0].Line)
			}
		})
	}
}

// TestRuntimeIsExportedPerProcess holds that the profiles of each process name its language runtime, and whether the functions
// of that have names: two run programs that are called node, of which one publishes names, the third runs none.
func TestRuntimeIsExportedPerProcess(t *testing.T) {
	needRoot(t)
	guest.SameOnEveryKernel(t)
	jit, plain, dir := testbin.C(t, "testdata/jit.c"), testbin.C(t, "testdata/seventy.c"), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "silent"), 0o700))
	sending, silent := copyFile(t, jit, filepath.Join(dir, "node")), copyFile(t, plain, filepath.Join(dir, "silent", "node"))
	e := begin(t, configuration(10*time.Millisecond, process.Selector{Exe: sending}, process.Selector{Exe: silent}, process.Selector{Exe: plain}))
	first := launch(t, sending, endless, "map")
	t.Cleanup(func() { _ = os.Remove(perfMapOf(first)) })
	for _, one := range []struct {
		*program
		want model.Runtime
	}{
		{first, model.Runtime{Language: model.FrameV8, Names: model.NamesPerfMap}},
		{launch(t, silent, endless), model.Runtime{Language: model.FrameV8, Names: model.NamesNone}},
		{launch(t, plain, endless), model.Runtime{}},
	} {
		require.Eventually(t, func() bool {
			exported := e.of(isPID(one.Process.Pid))
			return len(exported) > 0 && exported[len(exported)-1].Runtime == one.want
		}, time.Minute, 50*time.Millisecond, "%s: %+v", one.Path, one.want)
	}
	for _, p := range e.of(runs(plain)) {
		require.Zero(t, p.Runtime)
	}
}

func perfMapOf(p *program) string { return fmt.Sprintf("/tmp/perf-%d.map", p.Process.Pid) }

const busyScript = `
function hot(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; return s }
function cold(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; return s }
function used() { const u = process.cpuUsage(); return (u.user + u.system) * 1000 }
const spent = [0, 0], end = Number(process.argv[2]) * 1e6
for (let before = used(); before < end;) {
  const turn = before % 16180340 >= 16180340 * 0.7 ? 1 : 0
  if (turn) cold(100000); else hot(100000)
  const now = used(); spent[turn] += now - before; before = now
}
console.log(spent[0], spent[1], used())
`

// TestMeasureNode profiles node, which names its functions in a perf map. Its jitdump comes late: it is written when 2 MB are full.
func TestMeasureNode(t *testing.T) {
	needRoot(t)
	node := needRuntime(t, "node")
	e := begin(t, configuration(2*time.Millisecond, process.Selector{Cmdline: "busy-for-test.js"}))
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("busy-for-test.js", []byte(busyScript), 0o600))
	p := launch(t, node, "--perf-basic-prof", "--no-turbo-inlining", "busy-for-test.js", "8000")
	t.Cleanup(func() { require.NoError(t, os.Remove(perfMapOf(p))) })
	spent := p.end()
	e.end()
	profiles := e.of(isPID(p.Process.Pid))
	got := add(profiles)
	report(t, e, profiles)
	t.Logf("%s; spent %v", got, spent)
	holds(t, got, "hot", spent[0].Seconds()/spent[2].Seconds(), 0.05)
	holds(t, got, "cold", spent[1].Seconds()/spent[2].Seconds(), 0.05)
	f := frameOf(profiles, "hot")
	require.Equal(t, model.FrameV8, f.Type)
	require.Contains(t, f.Lines[0].Function.Filename, "busy-for-test.js")
	require.EqualValues(t, 2, f.Lines[0].Function.StartLine)
}

// TestMeasureJava profiles java, which has its functions named by jcmd while it runs.
func TestMeasureJava(t *testing.T) {
	needRoot(t)
	java, jcmd, javac := needRuntime(t, "java"), needRuntime(t, "jcmd"), needRuntime(t, "javac")
	dir := t.TempDir()
	out, err := exec.Command(javac, "-d", dir, "testdata/BusyForTest.java").CombinedOutput()
	require.NoError(t, err, "%s", out)
	e := begin(t, configuration(2*time.Millisecond, process.Selector{Cmdline: "BusyForTest"}))
	p := launch(t, java, "-XX:+PreserveFramePointer", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,BusyForTest.*", "-cp", dir, "BusyForTest", "10000")
	t.Cleanup(func() { require.NoError(t, os.Remove(perfMapOf(p))) })
	time.Sleep(3 * time.Second) // the two are compiled by then; main may be compiled again later
	if out, err = exec.Command(jcmd, strconv.Itoa(p.Process.Pid), "Compiler.perfmap").CombinedOutput(); err != nil {
		t.Skipf("this java writes no perf map (JDK 17 and newer do): %v: %s", err, out)
	}
	require.Eventually(t, func() bool { return e.Stats().Runtimes[model.Runtime{Language: "jvm", Names: "perf_map"}] == 1 }, time.Minute, 10*time.Millisecond, "%v", e.Stats().Runtimes)
	exported := time.Now()
	spent := p.end()
	e.end()
	profiles := e.of(isPID(p.Process.Pid))
	report(t, e, profiles)
	profiles = slices.DeleteFunc(profiles, func(p *model.Profile) bool { return p.Start.Before(exported) })
	main := ofThread(profiles, "java")
	got := add(main)
	t.Logf("after the map was written, main thread: %s; spent %v", got, spent)
	require.Greater(t, got.samples, int64(1000))
	holds(t, got, "BusyForTest.hot", spent[0].Seconds()/(spent[0]+spent[1]).Seconds(), 0.05)
	holds(t, got, "BusyForTest.cold", spent[1].Seconds()/(spent[0]+spent[1]).Seconds(), 0.05)
	require.Greater(t, float64(got.errors[model.StackWhole])/float64(got.samples), 0.99, "stacks lead to the thread's first frame")
	f := frameOf(profiles, "BusyForTest.hot")
	require.Equal(t, model.FrameJVM, f.Type)
	require.Equal(t, "long BusyForTest.hot(long)", f.Lines[0].Function.SystemName)
}

// ofThread leaves the samples of threads of that name.
func ofThread(profiles []*model.Profile, name string) (list []*model.Profile) {
	for _, p := range profiles {
		of := *p
		of.Samples = slices.DeleteFunc(slices.Clone(p.Samples), func(s model.Sample) bool { return s.ThreadName != name })
		list = append(list, &of)
	}
	return list
}

// needRuntime finds a language runtime; nothing is installed for a test, and TestCompiledCode tests the same without.
func needRuntime(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed here: %v", name, err)
	}
	return path
}

// frameOf finds a frame of a function.
func frameOf(profiles []*model.Profile, name string) *model.Frame {
	for _, p := range profiles {
		for _, s := range p.Samples {
			for _, f := range s.Frames {
				if len(f.Lines) > 0 && f.Lines[0].Function.Name == name {
					return f
				}
			}
		}
	}
	return nil
}

// report logs what part of the samples is not whole or has frames without names.
func report(t *testing.T, e *observed, profiles []*model.Profile) {
	t.Helper()
	frames, unnamed := map[model.FrameType]int64{}, map[model.FrameType]int64{}
	for _, p := range profiles {
		for _, s := range p.Samples {
			for _, f := range s.Frames {
				frames[f.Type] += s.Values[0]
				if len(f.Lines) == 0 {
					unnamed[f.Type] += s.Values[0]
				}
			}
		}
	}
	t.Logf("frames %v, unnamed %v of samples by type; of distinct frames %v; errors %v; lost %v",
		frames, unnamed, e.Stats().Unnamed, e.Stats().SymbolErrors, e.Stats().Lost)
}

// holds compares the part of samples that have a function with the truth.
func holds(t *testing.T, got sum, function string, truth, delta float64) {
	t.Helper()
	part := got.within(function)
	t.Logf("%s: %.4f of %.4f", function, part, truth)
	require.InDelta(t, truth, part, delta, "%s: %v", function, got.stacks)
}
