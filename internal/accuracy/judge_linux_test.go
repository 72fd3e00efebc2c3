// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// line is a message as the file exporter writes it: one sample of the kernel that stands for value of them.
func line(t *testing.T, function string, value int64) string {
	t.Helper()
	frame := &model.Frame{Type: model.FrameKernel, Lines: []model.Line{{Function: &model.Function{Name: function}}}}
	message := pdata.NewBuilder("test", "").Profiles([]*model.Profile{{
		Process:     &model.Process{ID: model.ProcessID{PID: 7}, ServiceName: "x"},
		SampleTypes: []model.ValueType{{Type: "samples", Unit: "count"}}, Start: time.Unix(1, 0), Duration: time.Second,
		Samples: []model.Sample{{Frames: []*model.Frame{frame}, Values: []int64{value}}},
	}})
	text, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(message)
	require.NoError(t, err)
	return string(text) + "\n"
}

func TestJudgeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "profiles.json")
	require.NoError(t, os.WriteFile(path, []byte(line(t, "ret_from_fork", 3)+line(t, "do_syscall_64", 2)), 0o600))
	r, err := judgeFile(path)
	require.NoError(t, err)
	require.EqualValues(t, 5, r.Samples)
	require.EqualValues(t, 3, r.Whole)

	require.NoError(t, os.WriteFile(path, []byte(line(t, "ret_from_fork", 3)+"{no JSON\n"), 0o600))
	_, err = judgeFile(path)
	require.ErrorContains(t, err, "reading line 2 of "+path)
	require.NoError(t, os.WriteFile(path, []byte(strings.TrimSuffix(line(t, "ret_from_fork", 3), "\n")), 0o600))
	_, err = judgeFile(path)
	require.ErrorContains(t, err, "EOF", "a line that was not written to its end")
	_, err = judgeFile("/nowhere")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestKeep(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "profiles.json"), filepath.Join(t.TempDir(), "new")
	require.NoError(t, os.WriteFile(from, []byte("text"), 0o600))
	require.NoError(t, keep(to, "nginx", from, "/nowhere/perf-1.map"))
	text, err := os.ReadFile(filepath.Join(to, "nginx-profiles.json"))
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
}

func TestVersion(t *testing.T) {
	if _, err := os.Stat("/var/lib/dpkg/status"); err != nil {
		t.Skip("not a Debian")
	}
	status, err := os.ReadFile("/var/lib/dpkg/status")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(status), "Package: coreutils\n")
	require.True(t, found)
	_, rest, found = strings.Cut(rest, "\nVersion: ")
	require.True(t, found)
	want, _, _ := strings.Cut(rest, "\n")
	require.Equal(t, "coreutils "+want, version(t.Context(), "/usr/bin/env"))
	require.Empty(t, version(t.Context(), "/nowhere"))
}
