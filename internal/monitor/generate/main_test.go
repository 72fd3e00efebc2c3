// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
)

// TestFilesAreGenerated checks that the table of the documentation and the metrics of metadata.yaml are those of the list.
func TestFilesAreGenerated(t *testing.T) {
	for path, update := range map[string]func(string, []*monitor.Descriptor) (string, error){pagePath: updatePage, metadataPath: updateMetadata} {
		text, err := os.ReadFile(filepath.Join("..", path))
		require.NoError(t, err)
		updated, err := update(string(text), monitor.All())
		require.NoError(t, err)
		require.Equal(t, updated, string(text), "%s differs from the list of monitors: run go generate ./internal/monitor ./receiver", path)
	}
}

// unlisted is a monitor for the tests below.
var unlisted = &monitor.Descriptor{
	Name: "threads", Unit: "threads", Max: 9, Doc: "threads at the end of the second", Integer: true,
	Metric:  model.Descriptor{Name: "b", Unit: "{thread}", Description: "Threads: all."},
	Process: func(monitor.Process) (float64, bool) { return 1, true },
}

func TestUpdatePage(t *testing.T) {
	_, err := updatePage("no table", nil)
	require.ErrorContains(t, err, "are missing")
	page, err := updatePage("before\n"+tableBegins+"| old |\n"+tableEnds+"after\n", []*monitor.Descriptor{unlisted, monitor.SystemLoad})
	require.NoError(t, err)
	require.Equal(t, "before\n"+tableBegins+
		"| `monitor` | scope | unit of `threshold` | value of one second | metric | of a service instance |\n|---|---|---|---|---|---|\n"+
		"| `threads` | process | threads, 0–9 | threads at the end of the second | `b` | highest |\n"+
		"| `system_load` | host | threads, from 0 | the host's 1-minute load average at the end of the second | `system.cpu.load_average.1m` | – |\n"+
		tableEnds+"after\n", page)
}

func TestUpdateMetadata(t *testing.T) {
	const block = "  b:\n    enabled: true\n    stability: development\n    description: \"Threads: all.\"\n    unit: \"{thread}\"\n" +
		"    gauge:\n      value_type: int\n    attributes: [ebpf.policy]\n"
	for name, text := range map[string]string{
		"insert":  "x:\n\nmetrics:\n  a:\n    enabled: true\n  c:\n    enabled: true\n\nevents:\n",
		"replace": "x:\n\nmetrics:\n  a:\n    enabled: true\n  b:\n    enabled: false\n    unit: s\n  c:\n    enabled: true\n\nevents:\n",
	} {
		updated, err := updateMetadata(text, []*monitor.Descriptor{unlisted})
		require.NoError(t, err)
		require.Equal(t, "x:\n\nmetrics:\n  a:\n    enabled: true\n"+block+"  c:\n    enabled: true\n\nevents:\n", updated, name)
	}
	updated, err := updateMetadata("x:\n\nmetrics:\n  a:\n    enabled: true\n\nevents:\n", []*monitor.Descriptor{unlisted})
	require.NoError(t, err)
	require.Equal(t, "x:\n\nmetrics:\n  a:\n    enabled: true\n"+block+"\nevents:\n", updated)
	for _, text := range []string{"", "metrics:\n", "x:\n\nmetrics:\n  a:\n    enabled: true\n"} {
		_, err := updateMetadata(text, nil)
		require.Error(t, err, text)
	}
}
