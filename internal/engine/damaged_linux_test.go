// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TestDamagedUnwindInformation runs programs whose .eh_frame is garbage from some entry on: each is sampled all the same, counted once, and
// named with that place in a warning.
func TestDamagedUnwindInformation(t *testing.T) {
	needRoot(t)
	dependsOnKernel(t, false)
	source, err := os.ReadFile("testdata/burn.h")
	require.NoError(t, err)
	const main = "#include <stdlib.h>\nint main(int argc, char **argv) { burn(atol(argv[1])); return 0; }\n"
	for _, c := range []struct {
		intact int // entries
		reason string
		says   string
	}{
		{0, "table_failed", "unwind information that cannot be used"},
		{2, "table_incomplete", "1 of its parts left out"}, // the entry point is kept
	} {
		t.Run(c.reason, func(t *testing.T) {
			path := compileText(t, "damaged", string(source)+main, "-DSALT=\""+t.TempDir()+"\"")
			file, err := elf.Open(path)
			require.NoError(t, err)
			frames := file.Section(".eh_frame")
			require.NoError(t, file.Close())
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			garbage, at := content[frames.Offset:][:frames.Size], 0
			for range c.intact {
				size := 4 + int(binary.LittleEndian.Uint32(garbage))
				garbage, at = garbage[size:], at+size
			}
			copy(garbage, bytes.Repeat([]byte{0xfe}, len(garbage)))
			require.NoError(t, os.WriteFile(path, content, 0o755)) //nolint:gosec // a program
			e := begin(t, configuration(time.Millisecond, process.Selector{Exe: path}))
			p := launch(t, path, "500")
			p.end()
			e.end()
			require.Positive(t, add(e.of(isPID(p.Process.Pid))).samples)
			incomplete := e.Stats().Incomplete
			require.EqualValues(t, 1, incomplete[LossKey{"unwind", c.reason}])
			require.EqualValues(t, 1, incomplete[LossKey{"unwind", "table_failed"}]+incomplete[LossKey{"unwind", "table_incomplete"}])
			told := e.logs.FilterMessage("Some stacks will be unwound by frame pointers alone").All()
			require.Len(t, told, 1)
			require.Contains(t, told[0].ContextMap()["error"], fmt.Sprintf("making the unwind table of %s: %s: .eh_frame at %#x: ", path, c.says, at))
		})
	}
}
