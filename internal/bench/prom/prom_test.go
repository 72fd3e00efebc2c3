// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const text = `# HELP otelcol_ebpf_events Events
# TYPE otelcol_ebpf_events counter
otelcol_ebpf_events{otel_scope_name="a, b}c",probe="on_cpu"} 1234
otelcol_ebpf_events_lost_total{probe="on_cpu",reason="map_full"} 2
otelcol_ebpf_events_lost_total{probe="process",reason="ring \"full\""} 3.5e+1 1700000000000
otelcol_ebpf_engine_cpu_time_seconds_total 0.25
otelcol_process_uptime 7
`

func TestParse(t *testing.T) {
	m, err := Parse(strings.NewReader(text), "otelcol_ebpf_")
	require.NoError(t, err)
	require.Len(t, m, 3)
	require.Equal(t, 1234.0, m.Sum("otelcol_ebpf_events", "probe", "on_cpu"))
	require.Equal(t, 0.0, m.Sum("otelcol_ebpf_events", "probe", "other"))
	require.Equal(t, 37.0, m.Sum("otelcol_ebpf_events_lost", "", ""))
	require.Equal(t, 35.0, m.Sum("otelcol_ebpf_events_lost", "reason", `ring "full"`))
	require.Equal(t, 0.25, m.Sum("otelcol_ebpf_engine_cpu_time", "", ""))
	require.Equal(t, "a, b}c", m["otelcol_ebpf_events"][0].Labels["otel_scope_name"])
}

func TestParseRefusesNonsense(t *testing.T) {
	for line, want := range map[string]string{
		"otelcol_x":            "no value",
		"otelcol_x{} ":         "no value",
		`otelcol_x{a="b" 1`:    "no closing brace",
		`otelcol_x{a="b`:       "label a",
		`otelcol_x{a=b} 1`:     "label a",
		`otelcol_x{a="b"} one`: "invalid syntax",
	} {
		_, err := Parse(strings.NewReader(line), "otelcol_")
		require.ErrorContains(t, err, want, line)
		require.ErrorContains(t, err, "parsing the metric line")
	}
	_, err := Parse(strings.NewReader(strings.Repeat("x", maxLine+1)), "otelcol_")
	require.ErrorContains(t, err, "reading metrics")
}

func FuzzParse(f *testing.F) {
	f.Add(text)
	f.Add(`a{b="c\n",} NaN`)
	f.Add("a{")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(strings.NewReader(text), "")
		if err != nil {
			return
		}
		for name := range m {
			m.Sum(name, "", "")
		}
	})
}
