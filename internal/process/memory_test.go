// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// readOf puts into the table what reading a process with n arguments would.
func readOf(table *Table, id model.ProcessID, n int) {
	text := func(format string) string { return fmt.Sprintf(format, id.PID) }
	r := &reading{
		startTicks: id.StartTicks, image: uint64(id.PID), comm: text("worker-%d"), executable: text("/opt/service/bin/worker-%d"),
		container: strings.Repeat(text("%08d"), 8),
	}
	for i := range n {
		r.arguments = append(r.arguments, text(fmt.Sprintf("--argument-%d=value-of-%%d", i)))
	}
	v := table.judge(&entry{id: id}, r)
	table.keep(id, &v, 0, false)
}

// TestBytes compares the estimate with the runtime's figures.
func TestBytes(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const count = 5000
	fill := func(table *Table, each func(id model.ProcessID)) {
		for n := uint32(1); n <= count; n++ {
			each(pid(n))
		}
	}
	for name, tt := range map[string]struct {
		include []Selector
		fill    func(*Table)
	}{
		"in scope": {nil, func(table *Table) {
			fill(table, func(id model.ProcessID) { readOf(table, id, 12) })
		}},
		"in scope, few arguments": {nil, func(table *Table) {
			fill(table, func(id model.ProcessID) { readOf(table, id, 1) })
		}},
		"out of scope": {[]Selector{{Exe: "/unused"}}, func(table *Table) {
			fill(table, func(id model.ProcessID) { readOf(table, id, 12) })
		}},
		"forked": {nil, func(table *Table) {
			readOf(table, pid(count+1), 12)
			fill(table, func(id model.ProcessID) { table.Fork(count+1, id, 0) })
		}},
		"run another program": {nil, func(table *Table) {
			fill(table, func(id model.ProcessID) {
				readOf(table, id, 12)
				table.Exec(id, Execution{Comm: "another"})
			})
		}},
		"undecided": {[]Selector{{Exe: "/unused"}}, func(table *Table) {
			fill(table, func(id model.ProcessID) { table.Exec(id, Execution{Comm: "another"}) })
		}},
		"ended": {nil, func(table *Table) {
			fill(table, func(id model.ProcessID) {
				readOf(table, id, 12)
				table.Exit(id)
			})
		}},
		"ended long ago": {nil, func(table *Table) {
			fill(table, func(id model.ProcessID) { readOf(table, id, 12) })
			fill(table, table.Exit)
			table.mu.Lock()
			table.expire(time.Now().Add(time.Hour))
			table.mu.Unlock()
			require.Zero(t, table.Stats().Known+table.Stats().Lingering)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			table := newFakeHost(t).table(Config{Include: tt.include, Now: newClock().now})
			heapBytes() // the second collection frees pooled buffers of other tests
			before, empty := heapBytes(), int(table.Bytes())
			tt.fill(table)
			after, estimate := heapBytes(), int(table.Bytes())
			ratio := float64(estimate-empty) / float64(after-before)
			t.Logf("%d bytes for each process, estimated %d", (after-before)/count, (estimate-empty)/count)
			require.InDelta(t, 1, ratio, 0.5)
			require.Greater(t, ratio, 1/1.5)
			runtime.KeepAlive(table)
		})
	}
}

// TestTextKeepsNoMore checks that of a long file only the words in use are kept.
func TestTextKeepsNoMore(t *testing.T) {
	h := newFakeHost(t)
	filler := strings.Repeat("a=b,", 20_000)
	for n := uint32(1); n <= 50; n++ {
		h.add(fakeProcess{
			pid: n, exe: "/bin/a", env: []string{"OTEL_RESOURCE_ATTRIBUTES=" + filler + "service.name=cart"},
			cgroup: "0::/" + strings.Repeat("x", 60_000) + "/docker/" + idA,
		})
	}
	table := h.table(Config{Include: []Selector{{Exe: "/bin/a"}}})
	before := heapBytes()
	scan(t, table)
	heapBytes() // the second collection frees pooled buffers
	require.Less(t, heapBytes()-before, 1<<20)
	require.Equal(t, "cart", process(t, table, 7).ServiceName)
	require.Equal(t, idA, process(t, table, 7).ContainerID)
}

func BenchmarkBytes5000(b *testing.B) {
	table := newFakeHost(b).table(Config{})
	for n := uint32(1); n <= 5000; n++ {
		readOf(table, pid(n), 12)
	}
	for b.Loop() {
		table.Bytes()
	}
}
