// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const onCPU = "observe::on_cpu::targets"

func TestNarrowingMatches(t *testing.T) {
	table := shopHost(t).table(Config{Include: []Selector{{Comm: "nginx", Set: map[string]string{"service.name": "front"}}}})
	scan(t, table)
	front := process(t, table, 11)
	for name, tt := range map[string]struct {
		selectors []Selector
		want      bool
	}{
		"nothing":  {nil, true},
		"one":      {[]Selector{{Comm: "java"}}, false},
		"a union":  {[]Selector{{Comm: "java"}, {Service: "^front$"}}, true},
		"all of a": {[]Selector{{Comm: "nginx", PID: 10}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			narrowing, err := table.Narrow(onCPU, tt.selectors)
			require.NoError(t, err)
			require.Equal(t, tt.want, table.Matches(narrowing, front))
		})
	}
	_, err := table.Narrow(onCPU, []Selector{{PID: 1}, {Comm: "("}})
	require.ErrorContains(t, err, "observe::on_cpu::targets[1]: comm: compiling the RE2 pattern: ")
}

// process is what is known of a process of the fake host, whose start is its pid.
func process(t *testing.T, table *Table, n uint32) *model.Process {
	p, inScope, err := table.Lookup(pid(n))
	require.NoError(t, err)
	require.True(t, inScope)
	return p
}

// TestNarrowingUnmatched checks that a kind's selector that matches nothing in scope is warned of once, and that the count follows what runs.
func TestNarrowingUnmatched(t *testing.T) {
	for name, tt := range map[string]struct {
		include   []Selector
		selectors []Selector
		unmatched []string
		reads     uint64
	}{
		"by stat":                 {nil, []Selector{{Comm: "java"}, {Comm: "^nginx$"}}, []string{onCPU + "[0]"}, 0},
		"by reading":              {nil, []Selector{{Exe: "/usr/bin/java"}, {Service: "^cart$"}}, []string{onCPU + "[0]"}, 3},
		"in scope only":           {[]Selector{{Comm: "nginx|java"}}, []Selector{{Comm: "python"}, {Comm: "java"}}, []string{onCPU + "[0]", onCPU + "[1]"}, 0},
		"in addition to includes": {[]Selector{{Comm: "nginx"}, {Comm: "java"}}, []Selector{{Comm: "java"}}, []string{"targets::include[1]", onCPU + "[0]"}, 0},
		"all matched":             {nil, []Selector{{PID: 11}}, nil, 0},
		"no selectors":            {nil, nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			h := shopHost(t)
			table := h.table(Config{Include: tt.include, SelfPID: 1, Logger: zap.New(core)})
			_, err := table.Narrow(onCPU, tt.selectors)
			require.NoError(t, err)
			require.Empty(t, table.Stats().Unmatched, "before the first scan nothing is known")
			scan(t, table)
			scan(t, table)
			require.Equal(t, tt.unmatched, table.Stats().Unmatched)
			require.Equal(t, tt.reads, table.Stats().Reads)
			if len(tt.unmatched) == 0 {
				require.Zero(t, logs.Len())
				return
			}
			require.Equal(t, 1, logs.Len())
			warned := []any{}
			for _, selector := range tt.unmatched {
				warned = append(warned, selector)
			}
			require.Equal(t, warned, logs.All()[0].ContextMap()["selectors"])

			id := h.add(fakeProcess{pid: 20, exe: "/usr/bin/java"})
			scan(t, table)
			left := map[bool][]string{true: {onCPU + "[0]"}, false: nil}[name == "in scope only"]
			require.Equal(t, left, table.Stats().Unmatched)
			require.Equal(t, 1, logs.Len())
			table.Exit(id)
			require.Equal(t, left, table.Stats().Unmatched, "it has matched")
		})
	}
}

// TestNarrowingMatchesProcessesFromEvents checks that the next scan matches a process that is known from events.
func TestNarrowingMatchesProcessesFromEvents(t *testing.T) {
	h := shopHost(t)
	table := h.table(Config{SelfPID: 1})
	_, err := table.Narrow(onCPU, []Selector{{Exe: "/usr/bin/java"}})
	require.NoError(t, err)
	scan(t, table)
	table.Fork(11, h.add(fakeProcess{pid: 20, exe: "/usr/bin/java"}), 0)
	table.Exec(pid(20), Execution{Comm: "java"})
	require.Equal(t, []string{onCPU + "[0]"}, table.Stats().Unmatched)
	scan(t, table)
	require.Empty(t, table.Stats().Unmatched)
}

// TestReleasedNarrowing checks that no warning is logged for a narrowing that was released, and that others stay.
func TestReleasedNarrowing(t *testing.T) {
	table := shopHost(t).table(Config{SelfPID: 1})
	gone, err := table.Narrow("targets", []Selector{{Comm: "unused"}})
	require.NoError(t, err)
	_, err = table.Narrow(onCPU, []Selector{{Comm: "unused"}})
	require.NoError(t, err)
	table.Release(gone)
	table.Release(gone)
	scan(t, table)
	require.Equal(t, []string{onCPU + "[0]"}, table.Stats().Unmatched)
}
