// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDescribed checks that a change is reported when the selectors of a kind may start or cease to match a process: no event reports what a
// process does after its exec.
func TestDescribed(t *testing.T) {
	before := fakeProcess{pid: 10, image: 5, exe: "/bin/web", args: []string{"web", "--warm-up"}}
	listens, renamed, retitled := before, before, before
	listens.sockets, listens.tcp = []uint64{7}, []string{socketLine(80, "0A", 7)}
	renamed.comm = "serving"
	retitled.args = []string{"web: serving"}
	for name, tt := range map[string]struct {
		selector Selector
		after    fakeProcess
	}{
		"port":         {Selector{Port: 80}, listens},
		"comm":         {Selector{Comm: "^serving$"}, renamed},
		"cmdline":      {Selector{Cmdline: "serving$"}, retitled},
		"port of many": {Selector{Port: 80, Exe: "/bin/*"}, listens},
	} {
		for scope, include := range map[string][]Selector{"all": nil, "by stat": {{PID: 10}}, "by reading": {{Exe: "/bin/web"}}, "by port": {{Port: 80}, {Exe: "/bin/web"}}} {
			t.Run(name+" in scope of "+scope, func(t *testing.T) {
				h, clock := newFakeHost(t), newClock()
				var changes []Change
				table := h.table(Config{Include: include, Now: clock.now, OnChange: func(c []Change) { changes = append(changes, c...) }})
				narrowing, err := table.Narrow(onCPU, []Selector{tt.selector})
				require.NoError(t, err)
				next := func(p fakeProcess) {
					h.add(p)
					for range 3 {
						clock.pass(2 * portsAge)
						scan(t, table)
					}
				}
				matches := func() bool { return table.Matches(narrowing, process(t, table, 10)) }

				id := h.add(before)
				scan(t, table)
				require.Equal(t, []Change{{id, Added}}, changes)
				require.False(t, matches())
				changes = nil

				next(tt.after)
				require.Equal(t, []Change{{id, Described}}, changes)
				require.True(t, matches())
				next(tt.after)
				require.Len(t, changes, 1, "it is the same as before")
				if name == "cmdline" {
					return // it was confirmed
				}
				next(before)
				require.Equal(t, []Change{{id, Described}, {id, Described}}, changes)
				require.False(t, matches())
			})
		}
	}
}

// TestDescribedByFork checks that a change is reported when a forked process gives itself another title.
func TestDescribedByFork(t *testing.T) {
	h, clock := newFakeHost(t), newClock()
	var changes []Change
	table := h.table(Config{Now: clock.now, OnChange: func(c []Change) { changes = append(changes, c...) }})
	narrowing, err := table.Narrow(onCPU, []Selector{{Cmdline: "^web: worker"}})
	require.NoError(t, err)
	h.add(fakeProcess{pid: 10, image: 5, exe: "/bin/web", args: []string{"web"}})
	scan(t, table)
	worker := fakeProcess{pid: 11, image: 5, exe: "/bin/web", args: []string{"web"}}
	id := h.add(worker)
	table.Fork(10, id, 0)
	require.False(t, table.Matches(narrowing, process(t, table, 11)))
	changes = nil
	worker.args = []string{"web: worker"}
	h.add(worker)
	scan(t, table)
	scan(t, table)
	require.Equal(t, []Change{{id, Described}}, changes)
	require.True(t, table.Matches(narrowing, process(t, table, 11)))
}

// TestDescribedIsNoNews checks that a process which was added or ran another program is reported as that alone, without a Described.
func TestDescribedIsNoNews(t *testing.T) {
	h, clock := newFakeHost(t), newClock()
	var changes []Change
	table := h.table(Config{Now: clock.now, OnChange: func(c []Change) { changes = append(changes, c...) }})
	_, err := table.Narrow(onCPU, []Selector{{Comm: "serving"}, {Port: 80}})
	require.NoError(t, err)
	p := fakeProcess{pid: 10, image: 5, exe: "/bin/web", sockets: []uint64{7}, tcp: []string{socketLine(80, "0A", 7)}}
	id := h.add(p)
	scan(t, table)
	require.Equal(t, []Change{{id, Added}}, changes)
	process(t, table, 10)
	p.image, p.comm, p.sockets = 6, "serving", nil
	h.add(p)
	clock.pass(2 * portsAge)
	scan(t, table)
	require.Equal(t, []Change{{id, Added}, {id, Executed}}, changes)
}
