// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// largeFiles are those of the largest binaries that hosts have, where they are
// installed.
var largeFiles = []string{
	"../../bin/otelcol-ebpf", "/usr/bin/node", "/usr/lib/x86_64-linux-gnu/libLLVM*.so.*",
	"/usr/lib/jvm/*/lib/server/libjvm.so", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/usr/lib/x86_64-linux-gnu/libc.so.6",
}

// BenchmarkBuild builds tables of large binaries. B/op is all that a build
// allocates, table-bytes what remains.
func BenchmarkBuild(b *testing.B) {
	for _, pattern := range largeFiles {
		all, err := filepath.Glob(pattern)
		require.NoError(b, err)
		for _, path := range all {
			b.Run(filepath.Base(path), func(b *testing.B) { benchmarkBuild(b, path) })
		}
	}
}

func benchmarkBuild(b *testing.B, path string) {
	img := imageAt(b, path)
	rows := 0
	b.ReportAllocs()
	for b.Loop() {
		table, err := Build(img, Limits{})
		require.NoError(b, err)
		require.NoError(b, table.Err)
		rows = len(table.Rows)
		b.ReportMetric(float64(table.Bytes()), "table-bytes")
		b.ReportMetric(float64(table.Bytes())/float64(rows), "bytes/row")
	}
	st, err := os.Stat(path)
	require.NoError(b, err)
	b.ReportMetric(float64(st.Size())/(1<<20), "file-MiB")
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

// BenchmarkLookup searches one table as the BPF program does.
func BenchmarkLookup(b *testing.B) {
	path := "/usr/lib/x86_64-linux-gnu/libc.so.6"
	if _, err := os.Stat(path); err != nil {
		b.Skip(err)
	}
	table, err := Build(imageAt(b, path), Limits{})
	require.NoError(b, err)
	pc := table.Start
	for b.Loop() {
		table.Lookup(pc)
		if pc += 4099; pc >= table.End {
			pc = table.Start
		}
	}
}
