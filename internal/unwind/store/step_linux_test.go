// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package store

import (
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stepped is the output of testdata/stepper.c.
type stepped struct {
	base                                          uint64 // address of the program's file
	steps, wrong, bare, unknown, deepest, signals int
	executed                                      []uint64 // addresses of instructions
	bareAt                                        []uint64 // of those without a rule if the stack was wrong
	complaints                                    []string
	status                                        string
}

// step runs a program instruction by instruction.
func step(t *testing.T, h *hosted, maxSteps, signalEvery int, records string, program ...string) stepped {
	t.Helper()
	args := append([]string{h.path, strconv.Itoa(maxSteps), strconv.Itoa(signalEvery), records}, program...)
	cmd := exec.Command(hostedProgram(t, "stepper"), args...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	require.NoError(t, cmd.Start())
	defer func() { require.NoError(t, cmd.Wait(), "%s", &complaints) }()
	return h.converse(t, in, out)
}

// converse answers the stepper's requests and takes its results.
func (h *hosted) converse(t *testing.T, in io.WriteCloser, out io.Reader) (got stepped) {
	t.Helper()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "tables":
			pid, err := strconv.Atoi(rest)
			require.NoError(t, err)
			_, err = fmt.Fprintln(in, h.space(t, pid).Handle())
			require.NoError(t, err)
		case "executed":
			pc, err := strconv.ParseUint(rest, 0, 64)
			require.NoError(t, err)
			got.executed = append(got.executed, pc)
		case "bare":
			pc, err := strconv.ParseUint(rest, 0, 64)
			require.NoError(t, err)
			got.bareAt = append(got.bareAt, pc)
		case "base":
			var err error
			got.base, err = strconv.ParseUint(rest, 0, 64)
			require.NoError(t, err)
		case "wrong":
			got.complaints = append(got.complaints, rest)
		case "status":
			got.status = rest
		case "end":
			_, err := fmt.Sscan(rest, &got.steps, &got.wrong, &got.bare, &got.unknown, &got.deepest, &got.signals)
			require.NoError(t, err)
		}
	}
	require.NoError(t, lines.Err())
	slices.Sort(got.executed)
	return got
}

// within counts the executed instructions from one address to before another.
func (s *stepped) within(from, to uint64) int {
	low, _ := slices.BinarySearch(s.executed, from)
	high, _ := slices.BinarySearch(s.executed, to)
	return high - low
}

// functions counts the executed instructions of each function of the program.
func (s *stepped) functions(t *testing.T, path string) map[string]int {
	t.Helper()
	file, err := elf.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	bias := uint64(0)
	if file.Type == elf.ET_DYN {
		bias = s.base
	}
	counts := map[string]int{}
	count := func(name string, from, size uint64) {
		counts[name] += s.within(from+bias, from+size+bias)
	}
	symbols, err := file.Symbols()
	require.NoError(t, err)
	for _, symbol := range symbols {
		if elf.ST_TYPE(symbol.Info) == elf.STT_FUNC {
			count(symbol.Name, symbol.Value, symbol.Size)
		}
	}
	for _, section := range file.Sections {
		if strings.HasPrefix(section.Name, ".plt") {
			count(section.Name, section.Addr, section.Size)
		}
	}
	return counts
}

// TestEveryInstruction runs programs instruction by instruction. At each, in prologues and epilogues, in the procedure linkage table, in the
// loader and in signal handlers, the unwinder must find the stack that the previous calls and returns make.
func TestEveryInstruction(t *testing.T) {
	for name, c := range map[string]struct {
		compiler, flags string
		signals         int
		plt             []string
	}{
		"lazy":    {"gcc", "-O2 -fomit-frame-pointer -Wl,-z,lazy", 0, []string{".plt"}},
		"signals": {"gcc", "-O2 -fomit-frame-pointer -fcf-protection=full -Wl,-z,lazy,-z,ibtplt", 37, []string{".plt", ".plt.sec"}},
		"O0":      {"gcc", "-O0 -fomit-frame-pointer -static", 23, nil},
		"size":    {"gcc", "-Os -fomit-frame-pointer -static -no-pie", 17, nil},
		"vectors": {"gcc", "-O3 -fomit-frame-pointer -static -mavx2 -fcf-protection=full", 11, nil},
		"clang":   {"clang-19", "-O2 -fomit-frame-pointer -static-pie", 13, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "steps")
			compile(t, c.compiler, append(strings.Fields(c.flags), "-o", path, "testdata/steps.c")...)
			began := time.Now()
			h := newHosted(t)
			got := step(t, h, 600_000, c.signals, "-", path)
			t.Logf("%d steps at %d instructions in %s, up to %d calls deep, %d signals; %d wrong, %d more without a rule, %d without a table",
				got.steps, len(got.executed), time.Since(began).Round(time.Millisecond), got.deepest, got.signals, got.wrong, got.bare, got.unknown)
			for _, line := range got.complaints {
				t.Errorf("wrong: %s", line)
			}
			require.Equal(t, "0", got.status, "the program has ended well")
			require.Zero(t, got.wrong)
			require.Zero(t, got.unknown)
			require.LessOrEqual(t, len(got.bareAt), 40, "what crt1.o's neighbours and longjmp have: %#x", got.bareAt)
			require.LessOrEqual(t, got.bare, 200, "and hardly anything below it")
			require.Positive(t, got.within(h.kernel.Start, h.kernel.End), "clock_gettime goes through the kernel's [vdso] at %#x", h.kernel.Start)
			counts := got.functions(t, path)
			for _, name := range append(c.plt, "main", "leaf", "deep", "aligned", "dynamic", "both", "huge", "sum", "doubles", "tail",
				"many", "by_scratch", "scratch_callee", "leave", "leave_by_call", "rare", "smaller", "handler", "elsewhere") {
				require.Positive(t, counts[name], "%s was executed; the program is mapped at %#x, code was executed from %#x to %#x", name, got.base, got.executed[0], got.executed[len(got.executed)-1])
			}
		})
	}
}
