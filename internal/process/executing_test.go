// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScanWaitsForAnExec checks that a scan does not decide by what a process shows in the middle of an exec.
func TestScanWaitsForAnExec(t *testing.T) {
	h := newFakeHost(t)
	job := []string{"OTEL_SERVICE_NAME=job"}
	h.add(fakeProcess{pid: 10, exe: "/bin/sh", image: 100, env: job})
	h.add(fakeProcess{pid: 11, exe: "/bin/sort", executing: true})
	h.add(fakeProcess{pid: 12, exe: "/bin/a", comm: "leader", state: "Z", threads: 2, executing: true})
	var changes []Change
	table := h.table(Config{
		Include:  []Selector{{Service: "^job$"}},
		OnChange: func(c []Change) { changes = append(changes, c...) },
	})
	require.Equal(t, ScanResult{Seen: 3, Added: 3}, scan(t, table))
	require.Equal(t, []Change{{pid(10), Added}}, changes)
	require.Equal(t, 1, table.Stats().Undecided, "one leader has ended, that is all it will show")

	changes = nil
	h.add(fakeProcess{pid: 10, exe: "/bin/sort", executing: true})
	h.add(fakeProcess{pid: 11, exe: "/bin/sort", image: 200, env: job})
	require.Equal(t, ScanResult{Seen: 3}, scan(t, table))
	require.Equal(t, []Change{{pid(11), Added}}, changes, "and the other is not out of scope")

	changes = nil
	h.add(fakeProcess{pid: 10, exe: "/bin/sort", image: 300, env: job})
	require.Equal(t, ScanResult{Seen: 3, Changed: 1}, scan(t, table))
	require.Equal(t, []Change{{pid(10), Executed}}, changes)
	require.Equal(t, "/bin/sort", process(t, table, 10).Executable)
	require.Zero(t, table.Stats().Undecided)
}

// TestLookupInAnExec checks that a caller which looked up a process in the middle of an exec gets a change when there is more to know.
func TestLookupInAnExec(t *testing.T) {
	for name, include := range map[string][]Selector{"everything": nil, "by comm": {{Comm: "sort"}}, "by exe": {{Exe: "/bin/sort"}}} {
		for settled, settle := range map[string]func(*Table, *clock){
			"by a scan": func(table *Table, _ *clock) { scan(t, table) },
			"by itself": func(table *Table, clock *clock) {
				clock.pass(DefaultSettleDelay)
				require.NoError(t, table.Settle(t.Context()))
			},
		} {
			t.Run(name+" "+settled, func(t *testing.T) {
				h := newFakeHost(t)
				var changes []Change
				clock := newClock()
				table := h.table(Config{Include: include, Now: clock.now, OnChange: func(c []Change) { changes = append(changes, c...) }})
				h.add(fakeProcess{pid: 10, exe: "/bin/sort", executing: true})
				require.Empty(t, process(t, table, 10).Arguments)
				require.Equal(t, 1, table.Stats().Undecided)
				h.add(fakeProcess{pid: 10, exe: "/bin/sort", image: 100, args: []string{"sort", "-u"}})
				settle(table, clock)
				kind := Added
				if include == nil {
					kind = Executed // it was in scope from the beginning
				}
				require.Equal(t, Change{pid(10), kind}, changes[len(changes)-1])
				require.Equal(t, []string{"sort", "-u"}, process(t, table, 10).Arguments)
				require.Zero(t, table.Stats().Undecided)
			})
		}
	}
}

// TestLeaderEnds checks that a process stays the same one when its group leader has exited and other threads run on, as also happens for a
// moment when it is killed.
func TestLeaderEnds(t *testing.T) {
	for name, include := range map[string][]Selector{"everything": nil, "by service": {{Service: "^job$"}}} {
		t.Run(name, func(t *testing.T) {
			h := newFakeHost(t)
			var changes []Change
			table := h.table(Config{Include: include, OnChange: func(c []Change) { changes = append(changes, c...) }})
			h.add(fakeProcess{pid: 10, exe: "/bin/a", image: 100, env: []string{"OTEL_SERVICE_NAME=job"}, threads: 2})
			scan(t, table)
			if include != nil {
				require.Equal(t, "/bin/a", process(t, table, 10).Executable)
			}
			require.NoError(t, os.Remove(filepath.Join(h.root, "proc/10/exe")))
			h.add(fakeProcess{pid: 10, comm: "a", state: "Z", threads: 2, executing: true})
			require.Equal(t, ScanResult{Seen: 1}, scan(t, table))
			require.Equal(t, []Change{{pid(10), Added}}, changes)
			p, inScope, err := table.Lookup(pid(10))
			require.NoError(t, err)
			require.True(t, inScope)
			require.Equal(t, "a", p.Comm)
			_, err = table.evaluate(pid(10)) // as events cause it to be read
			require.NoError(t, err)
			scan(t, table)
			if include != nil {
				require.Equal(t, "/bin/a", process(t, table, 10).Executable)
			}
			require.Equal(t, []Change{{pid(10), Added}}, changes)
		})
	}
}
