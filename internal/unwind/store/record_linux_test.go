// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package store

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// recordFlags build testdata/recorded.c.
var recordFlags = []string{"-O2", "-fomit-frame-pointer", "-fno-stack-protector", "-ffreestanding", "-nostdlib", "-static", "-no-pie",
	"-Wl,--build-id=none", "-Wl,-z,noseparate-code", "-s"}

// TestGenerateRecords records the stacks that TestRecorded unwinds, if EBPFRECEIVER_RECORD is set.
func TestGenerateRecords(t *testing.T) {
	if os.Getenv("EBPFRECEIVER_RECORD") == "" {
		t.Skip("the records are kept as they are; EBPFRECEIVER_RECORD=1 takes them anew")
	}
	dir := t.TempDir()
	program, records := filepath.Join(dir, "recorded"), filepath.Join(dir, "records")
	gcc(t, append(recordFlags, "-o", program, "testdata/recorded.c")...)
	got := step(t, newHosted(t), 100_000, 0, records, program)
	require.Zero(t, got.wrong)
	require.Equal(t, "0", got.status)
	writeRecords(t, "testdata/recorded-amd64.zip", program, records)
}

func writeRecords(t *testing.T, path, program, records string) {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for name, from := range map[string]string{"program": program, "records": records} {
		data, err := os.ReadFile(from)
		require.NoError(t, err)
		w, err := archive.Create(name)
		require.NoError(t, err)
		_, err = w.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o644))
}
