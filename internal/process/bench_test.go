// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// BenchmarkScan1000 scans 1,000 known processes of a fake /proc: what the
// kernel needs to write a real stat comes on top, see BenchmarkScanLive.
func BenchmarkScan1000(b *testing.B) {
	h := newFakeHost(b)
	for pid := uint32(1); pid <= 1000; pid++ {
		h.add(fakeProcess{pid: pid, exe: fmt.Sprintf("/usr/bin/program-%d", pid)})
	}
	table := h.table(Config{Include: []Selector{{Exe: "/usr/bin/*"}}})
	scan(b, table)
	b.ReportAllocs()
	for b.Loop() {
		_, err := table.Scan(b.Context())
		require.NoError(b, err)
	}
	require.Equal(b, uint64(1000), table.Stats().Reads)
}

// BenchmarkScanLive scans the processes of this machine and reports the time
// for each.
func BenchmarkScanLive(b *testing.B) {
	table, err := New(Config{})
	require.NoError(b, err)
	seen := 0
	for b.Loop() {
		result, err := table.Scan(b.Context())
		require.NoError(b, err)
		seen += result.Seen
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(seen), "ns/process")
}

func BenchmarkLookupKnown(b *testing.B) {
	h := newFakeHost(b)
	id := h.add(fakeProcess{pid: 10, exe: "/bin/a"})
	table := h.table(Config{})
	_, _, err := table.Lookup(id)
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		_, _, _ = table.Lookup(id)
	}
}

// BenchmarkReadProcess reads this process as a whole.
func BenchmarkReadProcess(b *testing.B) {
	fs := procFS{root: "/proc", errors: newReadErrors(zap.NewNop(), nil)}
	b.ReportAllocs()
	for b.Loop() {
		_, err := fs.read(uint32(os.Getpid()), false)
		require.NoError(b, err)
	}
}

// BenchmarkShortLived measures the cost of a process that does one small thing.
func BenchmarkShortLived(b *testing.B) {
	h := newFakeHost(b)
	h.add(fakeProcess{pid: 10, exe: "/bin/make"})
	table := h.table(Config{Include: []Selector{{Exe: "/bin/server"}}})
	scan(b, table)
	b.ReportAllocs()
	n := uint64(0)
	for b.Loop() {
		n++
		id := model.ProcessID{PID: 1000, StartTicks: n}
		table.Fork(10, id, 0)
		table.Exec(id, Execution{Comm: "cc1"})
		table.Exit(id)
	}
}

// BenchmarkMatch applies one selector of each kind of pattern.
func BenchmarkMatch(b *testing.B) {
	m, err := Selector{Comm: "ja", Exe: "/opt/**/java", Cmdline: "shop"}.Compile()
	require.NoError(b, err)
	p := &model.Process{Comm: "java", Executable: "/opt/jdk-21/bin/java", Arguments: []string{"java", "-jar", "/srv/shop.jar"}}
	b.ReportAllocs()
	for b.Loop() {
		m.match(&candidate{process: p})
	}
}
