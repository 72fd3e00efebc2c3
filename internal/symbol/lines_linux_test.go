// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bufio"
	"fmt"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const programInlined = `
#include <stdio.h>
#include <unistd.h>
static inline __attribute__((always_inline)) int inner(int x)
{
	asm volatile("imul $3, %0" : "+r"(x));
	return x;
}
static inline __attribute__((always_inline)) int middle(int x)
{
	x += 5;
	return inner(x) ^ 1;
}
__attribute__((noinline)) int outer(int x)
{
	asm volatile("" : "+r"(x));
	return middle(x) + inner(x);
}
int main(void)
{
	volatile int sum = outer(2);
	printf("outer %p\nmain %p\nready\n", (void *)outer, (void *)main);
	fflush(stdout);
	char c;
	while (read(0, &c, 1) > 0) { }
	return sum == 0;
}
`

// linesOf asks addr2line for the functions, files and lines of an address of a file, the innermost first.
func linesOf(t testing.TB, file string, addr uint64) []string {
	t.Helper()
	out, err := exec.Command("addr2line", "-e", file, "-f", "-i", "-C", fmt.Sprintf("%#x", addr)).Output()
	require.NoError(t, err)
	var lines []string
	text := bufio.NewScanner(strings.NewReader(string(out)))
	for text.Scan() {
		name := text.Text()
		require.True(t, text.Scan())
		at, _, _ := strings.Cut(text.Text(), " (")
		file, line, _ := strings.Cut(at, ":")
		lines = append(lines, fmt.Sprint(name, " ", path.Clean(file), " ", line))
	}
	return lines
}

func linesOfFrame(f *model.Frame) []string {
	var lines []string
	for _, l := range f.Lines {
		lines = append(lines, l.Function.Name+" "+l.Function.Filename+" "+strconv.FormatInt(l.Line, 10))
	}
	return lines
}

// TestLines compares each address of a function with what addr2line says.
func TestLines(t *testing.T) {
	needTool(t, "addr2line")
	bin := compileC(t, programInlined, "target", "-g", "-O2")
	symbols := symbolsOf(t, bin)
	p := start(t, bin)
	s := newSymbolizer(t, Config{})
	a := openSpace(t, s, p.pid())
	seen := map[int]int{}
	functions := map[string]*model.Function{}
	for off := range uint64(24) {
		f := a.Frames(nil, []uint64{p.functions["outer"] + off})[0]
		want := linesOf(t, bin, symbols["outer"]+off)
		if strings.Contains(want[0], "??") {
			continue
		}
		require.Equal(t, want, linesOfFrame(f), "%#x", f.Address)
		require.Equal(t, symbols["outer"]+off, f.Address)
		seen[len(f.Lines)]++
		for _, l := range f.Lines {
			if known := functions[l.Function.Name]; known != nil {
				require.Same(t, known, l.Function)
			}
			functions[l.Function.Name] = l.Function
		}
	}
	require.Len(t, seen, 3, "code of outer, of middle in it, and of inner in both: %v", seen)
	require.EqualValues(t, 4, functions["inner"].StartLine)
	require.EqualValues(t, 9, functions["middle"].StartLine)
	require.EqualValues(t, 14, functions["outer"].StartLine)
	require.Empty(t, s.Stats().Errors)
	held := s.Stats()
	s.mu.Lock()
	for b := range s.all {
		if b.tableBytes() > 0 {
			s.dropTables(b)
		}
		s.resetFrames(b)
	}
	s.mu.Unlock()
	require.Positive(t, held.TableBytes)
	require.Zero(t, s.Stats().TableBytes)
	require.Zero(t, s.Stats().FrameBytes)
	f := a.Frames(nil, []uint64{p.functions["outer"] + 8})[0]
	require.Equal(t, linesOf(t, bin, f.Address), linesOfFrame(f), "made again")
}
