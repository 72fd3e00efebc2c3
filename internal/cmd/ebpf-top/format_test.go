// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// fixtureList is what fixture prints as. 1,111 samples of 9 ms in 10 s are
// 0.9999 CPUs; 50 of 1,111 have no name.
const fixtureList = `09:00:10Z  1,111 samples in 10s  3 procs  1.00 CPUs busy  4.5% unnamed
 SELF%  TOTAL%   SAMPLES  FUNCTION          PROCESS (binary)
  76.5    76.5       850  burn              demo[*] (demo)
  13.5    13.5       150  idle              demo[1001] (demo)
   5.4     5.4        60  tcp_sendmsg       web[2000] (kernel)
   3.6     3.6        40  [stripped]        web[2000] (web)
   0.9     0.9        10  [no stack]        web[2000]
   0.1     0.1         1  late              demo[1001] (demo)
   0.0    90.1         0  main              demo[*] (demo)
   0.0     5.4         0  entry_SYSCALL_64  web[2000] (kernel)
   0.0     5.4         0  main              web[2000] (libc.so.6)
   0.0     5.4         0  serve             web[2000] (libc.so.6)
   0.0     3.6         0  main              web[2000] (web)
   0.0     3.6         0  serve             web[2000] (web)
`

func fixtureTop(t *testing.T) *top {
	top := newTop(time.Time{})
	for _, l := range bytes.Split(bytes.TrimSpace(fixture(t)), []byte("\n")) {
		top.add(l)
	}
	require.NoError(t, top.badWhy)
	return top
}

func TestList(t *testing.T) {
	require.Equal(t, fixtureList, strings.Join(format(fixtureTop(t), 20, false), "\n")+"\n")
}

func TestListByTotal(t *testing.T) {
	var functions []string
	for _, r := range fixtureTop(t).hottest(5, true) {
		functions = append(functions, fmt.Sprint(r.function, " ", r.total))
	}
	require.Equal(t, []string{"main 1001", "burn 850", "idle 150", "tcp_sendmsg 60", "entry_SYSCALL_64 60"}, functions)
}

// TestHeadFits checks that a minute of a large host fits into a terminal, whose last column stays free.
func TestHeadFits(t *testing.T) {
	top := newTop(time.Time{})
	top.spans.add(start, 60*time.Second)
	top.samples, top.unnamed, top.busy = 664_999, 299_999, 99.75e9*60
	for pid := range int64(9999) {
		top.processes[pid] = struct{}{}
	}
	for i, l := range format(top, 1, false) {
		require.LessOrEqual(t, len(l), 79, "line %d", i)
	}
	require.Equal(t, "09:01:00Z  664,999 samples in 60s  9,999 procs  99.75 CPUs busy  45.1% unnamed", headline(top))
}

// TestWhyThereIsNoName checks that frames without a name show why they have none.
func TestWhyThereIsNoName(t *testing.T) {
	file := &model.Mapping{Start: 0x1000, Limit: 0x9000, Path: "/usr/bin/a"}
	vsyscall := &model.Mapping{Path: "[vsyscall]"}
	one := func(value int64, f model.Frame, why model.StackError) model.Sample {
		s := sample(value, []*model.Frame{&f})
		s.Error = why
		return s
	}
	top := newTop(time.Time{})
	top.add(line(t, profile(1, "a", start,
		one(1, model.Frame{Type: model.FrameNative, Mapping: file, Address: 0x1001}, ""),
		one(2, model.Frame{Type: model.FrameGo, Mapping: file, Address: 0x1002}, model.StackNoMappings),
		one(4, model.Frame{Type: model.FrameNative, Address: 0x7001}, model.StackCut),
		one(8, model.Frame{Type: model.FrameNative, Address: 0x7001}, model.StackNoMappings),
		one(16, model.Frame{Type: model.FrameKernel}, model.StackNoMappings),
		one(32, model.Frame{Type: model.FrameNative, Mapping: vsyscall, Address: 1}, ""),
	)))
	require.NoError(t, top.badWhy)
	got := map[string]int64{}
	for _, r := range top.hottest(10, false) {
		got[r.function+" "+r.binary] = r.self
	}
	require.Equal(t, map[string]int64{
		"[stripped] a": 3, "[jit] ?": 4, "[not mapped] ?": 8, "[unnamed] kernel": 16, "[unnamed] [vsyscall]": 32,
	}, got)
	require.EqualValues(t, 63, top.unnamed)
}

func TestListIsCut(t *testing.T) {
	require.Equal(t, []string{
		"↓SELF%  TOTAL%   SAMPLES  FUNCTION     PROCESS (binary)",
		"  76.5    76.5       850  burn         demo[*] (demo)",
		"  13.5    13.5       150  idle         demo[1001] (demo)",
		"   5.4     5.4        60  tcp_sendmsg  web[2000] (kerne",
	}, cutTrailing(functionTable(fixtureTop(t), 3, false, 56)))
}

// cutTrailing removes the mark of a cut line, to compare with what was there.
func cutTrailing(lines []string) []string {
	for i, l := range lines {
		lines[i] = strings.TrimSuffix(l, "…")
	}
	return lines
}

func TestLongNamesAreCut(t *testing.T) {
	top := newTop(time.Time{})
	top.add(line(t, profile(1, "cxx", start, sample(1, stack("cxx", strings.Repeat("ns::", 100)+"f")))))
	for _, columns := range []int{40, 80, 120} {
		for _, l := range functionTable(top, 5, false, columns) {
			require.LessOrEqual(t, len([]rune(l)), columns)
		}
	}
	require.Equal(t, " 100.0   100.0         1  "+strings.Repeat("ns::", 19)+"ns:…  cxx[1] (cxx)", format(top, 5, false)[2])
}

func TestControlCharactersAreReplaced(t *testing.T) {
	const gone = "\ufffd" // where what is written here had a control character; others may write it as it is
	top := newTop(time.Time{})
	written := line(t, profile(1, "a"+gone+"[2Jb", start, sample(1, stack("x"+gone+"m", "f"+gone+"]0;title"+gone+gone+"\u202e"))))
	top.add(bytes.ReplaceAll(written, []byte(gone), []byte(`\u001b`)))
	require.Equal(t, " 100.0   100.0         1  f?]0;title???  a?[2Jb[1] (x?m)", format(top, 5, false)[2])
}

func TestWarnings(t *testing.T) {
	top := newTop(time.Time{})
	require.Empty(t, warnings(top))
	offCPU := profile(1, "a", start, sample(5, nil))
	offCPU.SampleTypes[0] = model.ValueType{Type: "off_cpu", Unit: "nanoseconds"}
	top.add(line(t, offCPU, profile(2, "b", start, sample(1, nil))))
	top.oversized = 2
	top.bad, top.badWhy = 3, errors.New("why\n")
	require.Equal(t, "left out: 1 samples that are not of CPU time; left out: 2 lines of more than 64 MiB; "+
		"not readable: 3 lines, the last: why?", format(top, 5, false)[1])
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		require.Equal(t, want, grouped(n))
	}
}

func TestTopIsBounded(t *testing.T) {
	top := newTop(time.Time{})
	for i := range maxRows + 10 {
		r := top.row(rowKey{function: fmt.Sprint(i)}, 1)
		r.self++
	}
	require.Len(t, top.rows, maxRows+1)
	require.EqualValues(t, 10, top.rows[rowKey{function: others}].self)
}

func TestTopLeavesOutWhatIsOld(t *testing.T) {
	top := newTop(start.Add(6 * time.Second))
	for _, l := range bytes.Split(bytes.TrimSpace(fixture(t)), []byte("\n")) {
		top.add(l)
	}
	require.EqualValues(t, 1, top.samples)
}
