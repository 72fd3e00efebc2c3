// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/overview"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/terminal"
)

var update = flag.Bool("update", false, "write the golden frames in testdata anew")

// recorded is a frame's data: the functions of fixture, and what a Collector wrote of the demo load's requests,
// connections and triggers.
func recorded(t *testing.T) data {
	o := overview.New(time.Unix(0, 0), window)
	for name, add := range map[string]func([]byte) error{metricsFile: o.AddMetrics, logsFile: o.AddLogs} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		for _, l := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
			require.NoError(t, add(l))
		}
	}
	return data{
		top: fixtureTop(t), requests: o.Requests(), connections: o.Connections(), triggers: o.Triggers(),
		footer: "flame graph: out/flamegraph.html",
	}
}

// marks show the style of a line in golden frames.
var marks = map[terminal.Style]string{terminal.Plain: " ", terminal.Bold: "*", terminal.Reverse: "#", terminal.Red: "!", terminal.Faint: "."}

func TestFrames(t *testing.T) {
	d := recorded(t)
	waiting := data{notice: "waiting for the first profile in out/profiles.json …"}
	less := d
	less.reduced = []overview.Level{{Kind: "network", Level: 3}, {Kind: "on_cpu", Level: 1}}
	for name, tt := range map[string]struct {
		view           view
		data           data
		columns, lines int
	}{
		"all-80x24":          {view{}, d, 80, 24},
		"all-140x50":         {view{}, d, 140, 50},
		"functions-80x24":    {view{tab: tabFunctions, byTotal: true}, d, 80, 24},
		"requests-80x24":     {view{tab: tabRequests, order: byErrors}, d, 80, 24},
		"requests-140x50":    {view{tab: tabRequests}, d, 140, 50},
		"connections-140x50": {view{tab: tabConnections, paused: true}, d, 140, 50},
		"triggers-80x24":     {view{tab: tabTriggers}, d, 80, 24},
		"waiting-80x24":      {view{}, waiting, 80, 24},
		"reduced-80x24":      {view{tab: tabRequests}, less, 80, 24},
		"help-80x24":         {view{help: true}, d, 80, 24},
	} {
		t.Run(name, func(t *testing.T) {
			frame := tt.view.frame(tt.data, tt.columns, tt.lines)
			require.Len(t, frame, tt.lines)
			var b strings.Builder
			for _, l := range frame {
				require.LessOrEqual(t, len([]rune(l.Text)), tt.columns)
				b.WriteString(strings.TrimRight(marks[l.Style]+l.Text, " ") + "\n")
			}
			path := filepath.Join("testdata", "frame-"+name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), b.String())
		})
	}
}

// TestFramesOfAnySize checks that no size of a terminal is too small.
func TestFramesOfAnySize(t *testing.T) {
	d := recorded(t)
	for columns := 1; columns < 200; columns += 13 {
		for lines := 1; lines < 60; lines += 7 {
			for tab := range tabs {
				v := view{tab: tab}
				frame := v.frame(d, columns, lines)
				require.LessOrEqual(t, len(frame), lines)
				for _, l := range frame {
					require.LessOrEqual(t, len([]rune(l.Text)), columns)
				}
			}
		}
	}
}

func TestPress(t *testing.T) {
	var v view
	for _, step := range []struct {
		key  terminal.Key
		want view
	}{
		{'3', view{tab: tabConnections}},
		{terminal.Tab, view{tab: tabTriggers}},
		{terminal.Right, view{tab: tabAll}},
		{terminal.BackTab, view{tab: tabTriggers}},
		{terminal.Left, view{tab: tabConnections}},
		{'s', view{tab: tabConnections, byTotal: true}},
		{'2', view{tab: tabRequests, byTotal: true}},
		{'s', view{tab: tabRequests, byTotal: true, order: byErrors}},
		{'p', view{tab: tabRequests, byTotal: true, order: byErrors, paused: true}},
		{'?', view{tab: tabRequests, byTotal: true, order: byErrors, paused: true, help: true}},
		{'q', view{tab: tabRequests, byTotal: true, order: byErrors, paused: true}},
		{'x', view{tab: tabRequests, byTotal: true, order: byErrors, paused: true}},
	} {
		require.False(t, v.press(step.key))
		require.Equal(t, step.want, v, "%c", rune(step.key))
	}
	require.True(t, v.press('q'))
	require.True(t, v.press(terminal.Interrupt))
}

func TestUnits(t *testing.T) {
	for want, got := range map[string]string{
		"850µs": seconds(850e-6), "1.68ms": seconds(1.68e-3), "15.3ms": seconds(15.31e-3), "401ms": seconds(0.4012), "1.20s": seconds(1.2), "120s": seconds(120),
		"0": bytesText(0), "999": bytesText(999.4), "1.00k": bytesText(999.6), "12.3M": bytesText(12.34e6), "4.00P": bytesText(4e15),
		"0.04": decimal(0.04), "24.8": decimal(24.83), "1000": decimal(999.96),
	} {
		require.Equal(t, want, got)
	}
	require.Equal(t, "0", decimal(0))
}

// TestReduced holds what is said of each kind that the receiver observes less of.
func TestReduced(t *testing.T) {
	for want, levels := range map[string][]overview.Level{
		"": nil,
		"Reduced by limits: network 1/2 of connections, off_cpu 4 × min_block":                  {{Kind: "network", Level: 1}, {Kind: "off_cpu", Level: 2}},
		"Reduced by limits: memory 1/8 of samples, network no requests, on_cpu 1/64 of samples": {{Kind: "memory", Level: 3}, {Kind: "network", Level: 6}, {Kind: "on_cpu", Level: 6}},
		"Reduced by limits: new, on_cpu 1/64 of samples":                                        {{Kind: "new", Level: 1}, {Kind: "on_cpu", Level: 1 << 40}},
	} {
		require.Equal(t, want, reduced(levels))
	}
}
