// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/accuracy/judge"
)

func program(change func(*judge.Result)) Program {
	p := Program{Name: "nginx", Version: "nginx 1.22", Result: judge.Result{
		Samples: 2000, Whole: 1980, Later: 1000, LaterWhole: 997, Entries: map[judge.Entry]int64{judge.ProgramEntry: 1980},
		Frames:  judge.Frames{All: 20000, Unnamed: 8000, WithSymbols: 10000, UnnamedWithSymbols: 200},
		Callers: 100, FalseCallers: 1,
	}}
	if change != nil {
		change(&p.Result)
	}
	return p
}

func TestMissed(t *testing.T) {
	require.NoError(t, program(nil).Missed(), "all three at their bounds")
	require.EqualError(t, program(func(r *judge.Result) { r.Samples, r.Whole = 999, 999 }).Missed(),
		"nginx: 999 samples, at least 1000 are needed")
	require.EqualError(t, program(func(r *judge.Result) { r.Whole-- }).Missed(),
		"nginx: 98.95 % of the samples reach the entry of their thread, target 99.00 %")
	require.EqualError(t, program(func(r *judge.Result) { r.Frames.UnnamedWithSymbols++ }).Missed(),
		"nginx: 2.01 % of the frames have no name where symbols exist, target 2.00 %")
	require.EqualError(t, Report{}.Missed(), "no program was judged")
	require.NoError(t, Report{Programs: []Program{program(nil)}}.Missed())
}

func TestPrint(t *testing.T) {
	end := judge.End{Mapping: "/lib/x.so", Address: 16, Error: "no_register"}
	r := Report{Load: 10 * time.Second, Period: 3 * time.Millisecond, Absent: []string{"starting node: not installed"}, Programs: []Program{
		program(nil),
		program(func(r *judge.Result) {
			r.Whole, r.Exiting, r.Contradicted = 1900, 7, 20
			r.Errors = map[string]int64{"no_register": 80}
			r.Ends = map[judge.End]int64{end: 100}
			r.FalseEnds = map[judge.End]int64{{Mapping: "/bin/x", Address: 32}: 1}
			r.Mappings = map[string]judge.Frames{
				"/lib/x.so": {All: 10, Unnamed: 5, WithSymbols: 4, UnnamedWithSymbols: 1}, "kernel": {All: 100, WithSymbols: 100},
			}
			r.Notes = []string{"opening a binary: no"}
		}),
	}}
	var text strings.Builder
	require.NoError(t, r.Print(&text))
	lines := strings.Split(text.String(), "\n")
	require.Equal(t, "10s of load for each program, a sample every 3ms on each CPU", lines[0])
	require.Equal(t, []string{"nginx", "nginx", "1.22", "2000", "99.00", "%", "99.70", "%", "40.00", "%", "2.00", "%", "0.00", "%", "0.00", "%", "1.00", "%", "met"}, strings.Fields(lines[3]))
	require.Equal(t, []string{"nginx", "nginx", "1.22", "2000", "95.00", "%", "99.70", "%", "40.00", "%", "2.00", "%", "4.00", "%", "1.00", "%", "1.00", "%", "MISSED"}, strings.Fields(lines[4]))
	require.Contains(t, text.String(), `
nginx: entries: program 99.00 %
  7 samples more of tasks that the kernel was ending: no stack is left then
  the receiver says: no_register 4.00 %
  stacks that end too early: 100 (5.00 %) at /lib/x.so!0x10 [no_register]
  callers that follow no call: 1 (1.00 %) at /bin/x!0x20
  frames without a name: /lib/x.so: 50.00 % of its 10 frames, 25.00 % where symbols exist
  note: opening a binary: no

left out: starting node: not installed
`)
	_, err := json.Marshal(r)
	require.NoError(t, err)
}
