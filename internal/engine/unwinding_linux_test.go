// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// openerC opens a library, waits, and works in it: opener LIBRARY MILLISECONDS-BEFORE WAIT MILLISECONDS-WITHIN.
const openerC = `
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static long used(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}
__attribute__((noinline)) void before(long ms)
{
	for (long end = used() + ms * 1000000; used() < end;)
		for (volatile int i = 0; i < 10000; i++)
			;
}
int main(int argc, char **argv)
{
	before(atol(argv[2]));
	void *library = dlopen(argv[1], RTLD_NOW);
	if (!library)
		return fprintf(stderr, "%s\n", dlerror()), 1;
	void (*burn)(long) = (void (*)(long))dlsym(library, "burn");
	usleep(1000 * atol(argv[3]));
	burn(atol(argv[4]));
	printf("%ld\n", used());
	return 0;
}
`

// compileText builds C for a test, without frame pointers.
func compileText(t *testing.T, name, text string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("no C compiler: %v", err)
	}
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path+".c", []byte(text), 0o600))
	args := append([]string{"-w", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-o", path, path + ".c"}, flags...)
	out, err := exec.Command("gcc", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// library builds burn.h; libraries of different salts are different.
func library(t *testing.T, salt string) string {
	t.Helper()
	source, err := os.ReadFile("testdata/burn.h")
	require.NoError(t, err)
	return compileText(t, "libburn.so", string(source), "-shared", "-fPIC", "-DSALT=\""+salt+"\"", "-Wl,--build-id")
}

// whole returns how many samples of a process there are and how many of them are not whole.
func (o *observed) whole(pid int) (all, broken int64, got sum) {
	got = add(o.of(isPID(pid)))
	for err, n := range got.errors {
		if err != model.StackWhole {
			broken += n
		}
	}
	return got.samples, broken, got
}

// broken lists the stacks that are not whole.
func (o *observed) broken(pid int) map[string]int64 {
	stacks := map[string]int64{}
	for _, p := range o.of(isPID(pid)) {
		for _, one := range p.Samples {
			if one.Error != model.StackWhole {
				stacks[string(one.Error)+": "+names(one.Frames)] += one.Values[0]
			}
		}
	}
	return stacks
}

// TestTablesOfScopeAlone holds that no tables are made for a program that is out of scope, and for what it maps.
func TestTablesOfScopeAlone(t *testing.T) {
	needRoot(t)
	dependsOnKernel(t, false)
	opener, outsider := compileText(t, "opener", openerC, "-ldl"), compileText(t, "outsider", openerC+"int outsider;", "-ldl", "-Wl,--build-id")
	known, unknown := library(t, "known"), library(t, t.TempDir())
	e := begin(t, configuration(time.Millisecond, process.Selector{Exe: opener}))
	built := func() uint64 { return e.unwinding.store.Stats().Built }
	sent := func(pid int) bool {
		return slices.ContainsFunc(e.of(isPID(pid)), func(p *model.Profile) bool { return len(p.Samples) > 0 })
	}
	run := func(library string) {
		p := launch(t, opener, library, "0", "0", endless)
		e.await(p.Process.Pid, passing("main burn middle inner"))
		e.unwound()
		p.kill()
	}
	run(known)
	before := built()
	outside := launch(t, outsider, unknown, "300", "0", "300")
	outside.end()
	run(known) // it begins later: its tables are made after what the other process did
	require.Equal(t, before, built(), "out of scope")
	require.False(t, sent(outside.Process.Pid))
	run(unknown)
	require.Greater(t, built(), before, "the same library in scope has a table")
}

// TestMeasureLibraryOpened holds that stacks through a library without frame pointers are whole soon after it was opened, and at
// once when another process has it, or a copy of it: no table is made again.
func TestMeasureLibraryOpened(t *testing.T) {
	needRoot(t)
	opener := compileText(t, "opener", openerC, "-ldl")
	unknown := library(t, t.TempDir())
	e := begin(t, configuration(time.Millisecond, process.Selector{Exe: opener}))
	time.Sleep(300 * time.Millisecond)                              // what is read of a host at the start
	launch(t, opener, library(t, "another"), "50", "0", "50").end() // so that what all programs have is known
	first := launch(t, opener, unknown, "300", "0", "2000")
	first.end()
	built := e.unwinding.store.Stats().Built
	second := launch(t, opener, copyFile(t, unknown, filepath.Join(t.TempDir(), "copy.so")), "300", "10", "2000")
	second.end()
	third := launch(t, opener, unknown, "0", "0", "1000")
	third.end()
	require.Equal(t, built, e.unwinding.store.Stats().Built, "nothing again")
	e.end()
	for _, c := range []struct {
		name string
		of   *program
		// within is how many samples in the library may be not whole, anywhere how many in all; parts of the samples.
		within, anywhere float64
	}{
		{"a library that no process has had", first, 0.01, 0.02},
		{"a copy of one that another process has had", second, 0, 0.01},
		{"one that is opened as soon as the program begins", third, 0.01, 0.02},
	} {
		all, broken, got := e.whole(c.of.Process.Pid)
		stacks := e.broken(c.of.Process.Pid)
		t.Logf("%s: %d samples, %d not whole: %v", c.name, all, broken, stacks)
		within := int64(0)
		for stack, n := range stacks {
			if strings.Contains(stack, "inner") || strings.Contains(stack, "middle") || strings.Contains(stack, "burn") {
				within += n
			}
		}
		assert.Greater(t, got.within("main burn middle inner"), 0.7, "%v", got.stacks)
		if testbin.UnderRace { // which makes the engine some ten times as slow
			c.within, c.anywhere = 10*c.within+0.01, 10*c.anywhere
		}
		assert.LessOrEqual(t, float64(within), c.within*float64(all), c.name)
		assert.LessOrEqual(t, float64(broken), c.anywhere*float64(all), c.name)
	}
	require.Zero(t, e.Stats().Incomplete[LossKey{"unwind", "table_failed"}])
}

// TestMeasureDebugFileUnwinds runs a program that has unwind tables only in its separate debug file, but for the start-up code of the C library.
func TestMeasureDebugFileUnwinds(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("objcopy"); err != nil {
		t.Skipf("no objcopy: %v", err)
	}
	source, err := os.ReadFile("testdata/burn.h")
	require.NoError(t, err)
	const main = "#include <stdlib.h>\nint main(int argc, char **argv) { burn(atol(argv[1])); return 0; }\n"
	path := compileText(t, "debugframe", string(source)+main, "-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-Wl,--build-id",
		"-DSALT=\""+t.TempDir()+"\"")
	for _, args := range [][]string{
		{"--only-keep-debug", path, path + ".debug"}, {"--strip-debug", "--add-gnu-debuglink=" + path + ".debug", path},
	} {
		out, err := exec.Command("objcopy", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	e := begin(t, configuration(time.Millisecond, process.Selector{Exe: path}))
	p := launch(t, path, "2000")
	p.end()
	e.end()
	all, broken, got := e.whole(p.Process.Pid)
	t.Logf("%d samples, %d not whole: %v", all, broken, e.broken(p.Process.Pid))
	require.Greater(t, got.within("main burn middle inner"), 0.7, "%v", got.stacks)
	allowed := 0.05
	if testbin.UnderRace {
		allowed = 0.3 // making the tables takes ten times as long
	}
	require.LessOrEqual(t, float64(broken), allowed*float64(all))
}

// TestForked holds that children which live shorter than it takes to read them have whole stacks with names: they go on with their
// parent's tables, and its mappings name what they did.
func TestForked(t *testing.T) {
	needRoot(t)
	forker := testbin.C(t, "testdata/forker.c", "-DSALT=\""+t.TempDir()+"\"")
	e := begin(t, configuration(time.Millisecond, process.Selector{Exe: forker}))
	p := launch(t, forker, "300", "1000000", "5")
	require.Eventually(t, func() bool {
		for _, profile := range e.of(func(who *model.Process) bool { return who.Executable == forker && !isPID(p.Process.Pid)(who) }) {
			for _, one := range profile.Samples {
				if one.Error == model.StackWhole && strings.HasSuffix(names(one.Frames), "main burn middle inner") {
					return true
				}
			}
		}
		return false
	}, time.Minute, 50*time.Millisecond)
	p.kill()
}

// TestMeasureForked holds that nearly all of their stacks are so.
func TestMeasureForked(t *testing.T) {
	needRoot(t)
	forker := testbin.C(t, "testdata/forker.c", "-DSALT=\""+t.TempDir()+"\"")
	e := begin(t, configuration(time.Millisecond, process.Selector{Exe: forker}))
	time.Sleep(300 * time.Millisecond) // what is read of a host at the start
	before, count, each := "300", 200, 5
	if emulated {
		before, count, each = "2000", 50, 20
	}
	discovered := e.tabled(forker, endless, "0", "0")
	p := launch(t, forker, before, strconv.Itoa(count), strconv.Itoa(each))
	require.Empty(t, p.end())
	e.end()
	children := add(e.of(func(who *model.Process) bool {
		return who.Executable == forker && who.ID.PID != uint32(p.Process.Pid) && who.ID.PID != uint32(discovered)
	}))
	t.Logf("%d samples of %d children: %v, %v", children.samples, count, children.errors, children.stacks)
	samples, working, allowed := 300, 0.6, 0.03 // of the end, when the memory is taken away
	switch {
	case emulated: // starting and ending a child takes as long as its work, and 7.2 samples once in a child
		samples, working, allowed = 30, 0.2, 0.4
	case testbin.UnderRace:
		allowed = 0.2
	}
	require.Greater(t, children.samples, int64(samples), "1 s of work was shared out")
	require.Greater(t, children.within("main burn middle inner"), working)
	require.LessOrEqual(t, float64(children.samples-children.errors[model.StackWhole]), allowed*float64(children.samples))
}

// TestMeasureGoGrows holds that what Go's runtime does on another stack, to make room on a goroutine's, has the goroutine's functions as callers.
func TestMeasureGoGrows(t *testing.T) {
	needRoot(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the walk does not have the register that g is in")
	}
	path := testbin.Go(t, "testdata/gogrow")
	e := begin(t, configuration(time.Millisecond, process.Selector{Exe: path}))
	work, whole := time.Second, 0.97
	switch {
	case emulated: // the first look at a program takes long there
		work, whole = 4*time.Second, 0.4
	case testbin.UnderRace: // the first samples find no tables for longer
		whole = 0.85
	}
	e.tabled(path, endless)
	p := launch(t, path, milliseconds(work))
	require.Empty(t, p.end())
	e.end()
	got := add(e.of(isPID(p.Process.Pid)))
	grows, known := int64(0), int64(0)
	for stack, n := range got.stacks {
		if _, inner, found := strings.Cut(stack, "runtime.newstack"); found && !strings.Contains(inner, "goschedImpl") {
			grows += n
			if strings.HasPrefix(stack, "runtime.goexit main.main.func1 main.deeper") {
				known += n
			}
		}
	}
	t.Logf("%d of %d samples are where a stack grows, %d of them below the goroutine's functions", grows, got.samples, known)
	require.Greater(t, grows, got.samples/20)
	require.GreaterOrEqual(t, float64(known), whole*float64(grows), "%v", got.errors)
}

// TestInTheKernel holds that user stacks of samples that are taken in the kernel are whole: they begin at the registers
// that were saved on the way in.
func TestInTheKernel(t *testing.T) {
	needRoot(t)
	zeros := testbin.C(t, "testdata/zeros.c")
	e := begin(t, configuration(2*time.Millisecond, process.Selector{Exe: zeros}))
	p := launch(t, zeros, endless)
	require.Eventually(t, func() bool {
		for _, profile := range e.of(isPID(p.Process.Pid)) {
			for _, one := range profile.Samples {
				stack := names(one.Frames)
				if one.Error == model.StackWhole && strings.Contains(stack, "main outer inner") && strings.HasSuffix(stack, "read") {
					return true
				}
			}
		}
		return false
	}, time.Minute, 50*time.Millisecond)
	p.kill()
}

// TestMeasureInTheKernel holds that nearly all of them are.
func TestMeasureInTheKernel(t *testing.T) {
	needRoot(t)
	zeros := testbin.C(t, "testdata/zeros.c")
	work := 2 * time.Second
	if emulated {
		work *= 2 // the first look at a program takes long there
	}
	e := begin(t, configuration(2*time.Millisecond, process.Selector{Exe: zeros}))
	e.tabled(zeros, endless)
	p := launch(t, zeros, milliseconds(work))
	require.Empty(t, p.end())
	e.end()
	all, broken, got := e.whole(p.Process.Pid)
	t.Logf("%d samples, %d not whole: %v", all, broken, e.broken(p.Process.Pid))
	require.Greater(t, all, int64(50))
	inner := int64(0)
	for stack, n := range got.stacks {
		if strings.Contains(stack, "main outer inner") && strings.HasSuffix(stack, "read") {
			inner += n
		}
	}
	require.Greater(t, float64(inner), 0.8*float64(all-broken), "%v", got.stacks)
	before := 0.1
	switch {
	case emulated:
		before = 0.4
	case testbin.UnderRace:
		before = 0.25
	}
	require.LessOrEqual(t, float64(broken), before*float64(all), "those before the tables were there")
}
