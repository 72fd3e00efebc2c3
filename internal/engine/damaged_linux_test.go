// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// burner builds a program of its own that burns CPU time for the milliseconds of its argument.
func burner(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile("testdata/burn.h")
	require.NoError(t, err)
	const main = "#include <stdlib.h>\nint main(int argc, char **argv) { burn(atol(argv[1])); return 0; }\n"
	return compileText(t, "damaged", string(source)+main, "-DSALT=\""+t.TempDir()+"\"", "-Wl,--build-id")
}

// garble makes garbage of a program's .eh_frame behind so many entries, and returns where in the section it begins.
func garble(t *testing.T, path string, intact int) (at int) {
	t.Helper()
	file, err := elf.Open(path)
	require.NoError(t, err)
	frames := file.Section(".eh_frame")
	require.NoError(t, file.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	garbage := content[frames.Offset:][:frames.Size]
	for range intact {
		size := 4 + int(binary.LittleEndian.Uint32(garbage))
		garbage, at = garbage[size:], at+size
	}
	copy(garbage, bytes.Repeat([]byte{0xfe}, len(garbage)))
	require.NoError(t, os.WriteFile(path, content, 0o755)) //nolint:gosec // a program
	return at
}

// TestDamagedCopy runs a program after a copy of it whose .eh_frame is garbage, which has its build id, size, head and tail: stacks of the
// good one are whole, and those of another good copy by the same table.
func TestDamagedCopy(t *testing.T) {
	needRoot(t)
	dependsOnKernel(t, false)
	other, good := burner(t), burner(t)
	content, err := os.ReadFile(good)
	require.NoError(t, err)
	bad, same := good+".bad", good+".same"
	for _, path := range []string{bad, same} {
		require.NoError(t, os.WriteFile(path, content, 0o755)) //nolint:gosec // a program
	}
	garble(t, bad, 0)
	e := begin(t, configuration(time.Millisecond, process.Selector{Exe: other}, process.Selector{Exe: good + "*"}))
	var built []uint64
	run := func(path string, fits func(sum) bool) sum {
		p := launch(t, path, endless)
		e.await(p.Process.Pid, fits)
		e.unwound()
		p.kill()
		built = append(built, e.unwinding.store.Stats().Built)
		return add(e.of(isPID(p.Process.Pid)))
	}
	whole := passing("main burn middle inner")
	run(other, whole) // it has the same libraries
	got := run(bad, func(got sum) bool { return got.samples > 400 })
	require.Less(t, got.within("main burn middle inner"), 0.1, "the damaged one says nothing of its frames")
	run(good, whole)
	run(same, whole)
	require.Equal(t, []uint64{built[1], built[1] + 1, built[1] + 1}, built[1:], "one table for both good ones, another for the damaged one")
}

// TestMeasureDamagedCopy holds that nearly all stacks of a good one are whole.
func TestMeasureDamagedCopy(t *testing.T) {
	needRoot(t)
	good := burner(t)
	content, err := os.ReadFile(good)
	require.NoError(t, err)
	bad := good + ".bad"
	require.NoError(t, os.WriteFile(bad, content, 0o755)) //nolint:gosec // a program
	garble(t, bad, 0)
	e := begin(t, configuration(time.Millisecond, process.Selector{Exe: good + "*"}))
	for _, path := range []string{bad, good} {
		p := launch(t, path, "500")
		p.end()
		e.await(p.Process.Pid, func(got sum) bool { return got.samples > 400 })
		if path == good {
			require.Greater(t, add(e.of(isPID(p.Process.Pid))).within("main burn middle inner"), 0.9)
		}
	}
}

// TestDamagedUnwindInformation runs programs whose .eh_frame is garbage from some entry on: each is sampled all the same, counted once, and
// named with that place in a warning.
func TestDamagedUnwindInformation(t *testing.T) {
	needRoot(t)
	dependsOnKernel(t, false)
	for _, c := range []struct {
		intact int // entries
		reason string
		says   string
	}{
		{0, "table_failed", "unwind information that cannot be used"},
		{2, "table_incomplete", "1 of its parts left out"}, // the entry point is kept
	} {
		t.Run(c.reason, func(t *testing.T) {
			path := burner(t)
			at := garble(t, path, c.intact)
			e := begin(t, configuration(time.Millisecond, process.Selector{Exe: path}))
			p := launch(t, path, endless)
			e.await(p.Process.Pid, func(got sum) bool {
				return got.samples > 0 && e.Stats().Incomplete[LossKey{"unwind", c.reason}] > 0
			})
			e.unwound()
			p.kill()
			e.end()
			incomplete := e.Stats().Incomplete
			require.EqualValues(t, 1, incomplete[LossKey{"unwind", c.reason}])
			require.EqualValues(t, 1, incomplete[LossKey{"unwind", "table_failed"}]+incomplete[LossKey{"unwind", "table_incomplete"}])
			logged := e.logs.FilterMessage("Some stacks will be unwound by frame pointers alone").All()
			require.Len(t, logged, 1)
			require.Contains(t, logged[0].ContextMap()["error"], fmt.Sprintf("making the unwind table of %s: %s: .eh_frame at %#x: ", path, c.says, at))
		})
	}
}

// TestManyDamaged runs several programs whose .eh_frame is garbage: the log names them.
func TestManyDamaged(t *testing.T) {
	needRoot(t)
	dependsOnKernel(t, false)
	var paths []string
	var selectors []process.Selector
	for range 4 {
		path := burner(t)
		garble(t, path, 0)
		paths, selectors = append(paths, path), append(selectors, process.Selector{Exe: path})
	}
	e := begin(t, configuration(time.Millisecond, selectors...))
	began := time.Now()
	for _, path := range paths {
		launch(t, path, endless)
	}
	require.Eventually(t, func() bool { return e.Stats().Incomplete[LossKey{"unwind", "table_failed"}] == 4 }, time.Minute, 10*time.Millisecond)
	e.end()
	lasted := time.Since(began)
	var logged []string
	for _, entry := range e.logs.FilterMessage("Some stacks will be unwound by frame pointers alone").All() {
		logged = append(logged, fmt.Sprint(entry.ContextMap()))
	}
	// One at once, the others together, or by ten seconds.
	require.GreaterOrEqual(t, len(logged), 2, "%v", logged)
	require.LessOrEqual(t, len(logged), 2+int(lasted/(10*time.Second)), "%v", logged)
	for _, path := range paths {
		require.Contains(t, strings.Join(logged, " "), path+":")
	}
}
