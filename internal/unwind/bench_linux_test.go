// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"debug/elf"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// largeFiles are the largest binaries of usual hosts, if they are installed.
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
		b.ReportMetric(float64(table.Skipped), "left-out")
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

// largeBinary makes a binary whose code and .eh_frame are as large as those of a C++ program of 100 MB: functions that save
// some registers, have a frame and a return or two in the middle.
func largeBinary() (file []byte, functions int) {
	const text, mean = 80 << 20, 208
	eh := cieBytes("zR", 1, peAbsolute)
	at := uint64(fuzzText)
	for at < fuzzText+text {
		size := uint64(48 + functions*7919%(2*(mean-48)))
		var code []byte
		saved := functions % 7
		for i := range saved {
			code = append(code, cfaAdvance|2, cfaDefCFAOffset, byte(16+8*i), cfaOffset|[]byte{15, 14, 13, 12, 6, 3, 3}[i], byte(2+i))
		}
		code = append(code, cfaAdvance|4, cfaDefCFAOffset, byte(24+8*saved), cfaAdvance|20, cfaRememberState)
		for i := range saved {
			code = append(code, cfaAdvance|1, cfaDefCFAOffset, byte(8+8*(saved-i)))
		}
		code = append(code, cfaAdvance|1, cfaRestoreState)
		eh = append(eh, fdeBytes(len(eh), at, size, code...)...)
		at += size
		functions++
	}
	file = binaryWith(elf.EM_X86_64, ".eh_frame", append(eh, 0, 0, 0, 0))
	le.PutUint64(file[64+40:], at-fuzzText)          // p_memsz of the code
	le.PutUint64(file[0x140+2*64+16:], at+0x1000000) // address of .eh_frame, behind it
	return file, functions
}

// BenchmarkBuildLarge checks what is promised of a binary of 100 MB: a table in less than 1.5 s and at most 40 MB.
func BenchmarkBuildLarge(b *testing.B) {
	file, functions := largeBinary()
	var table *Table
	b.ReportAllocs()
	for b.Loop() {
		var err error
		table, err = Build(imageOf(file), Limits{})
		require.NoError(b, err)
		require.NoError(b, table.Err)
	}
	require.Equal(b, functions, table.Functions)
	b.ReportMetric(float64(functions), "functions")
	b.ReportMetric(float64(len(table.Rows)), "rows")
	b.ReportMetric(float64(table.Bytes()), "table-bytes")
	if perBuild := b.Elapsed() / time.Duration(b.N); perBuild > 1500*time.Millisecond {
		b.Errorf("%s for a table; at most 1.5 s is promised", perBuild)
	}
	if table.Bytes() > 40<<20 {
		b.Errorf("a table of %d bytes; at most 40 MB is promised", table.Bytes())
	}
}
