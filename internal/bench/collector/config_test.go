// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestYAMLWithReceiver(t *testing.T) {
	text, err := Config{
		Receiver:    &Receiver{Period: 2 * time.Millisecond, KernelStacks: true, CPUPercent: 100, ReportInterval: time.Second, Include: []Selector{{Exe: "/usr/bin/a*"}, {Exe: "/b", PID: 77}}},
		File:        `/tmp/a "b".json`,
		MetricsPort: 1234,
		PprofPort:   1235,
	}.YAML()
	require.NoError(t, err)
	require.Equal(t, `receivers:
  ebpf:
    targets:
      include:
        - {exe: "/usr/bin/a*"}
        - {exe: "/b", pid: 77}
    observe:
      on_cpu: {period: 2ms, kernel_stacks: true, report_interval: 1s}
    limits: {cpu_percent: 100}
exporters:
  nop:
  file: {path: "/tmp/a \"b\".json", flush_interval: 200ms}
extensions:
  pprof: {endpoint: "127.0.0.1:1235"}
service:
  extensions: [pprof]
  telemetry:
    logs: {level: warn}
    metrics:
      level: normal
      readers:
        - pull: {exporter: {prometheus: {host: 127.0.0.1, port: 1234}}}
  pipelines:
    profiles:
      receivers: [ebpf]
      exporters: [file]
`, text)
}

func TestYAMLOfNetwork(t *testing.T) {
	text, err := Config{
		Receiver: &Receiver{Network: &Network{Capture: "headers", Log: "all"}, CPUPercent: 100, Include: []Selector{{Exe: "/b", PID: 77}}},
		File:     "/tmp/a.json", MetricsPort: 1234,
	}.YAML()
	require.NoError(t, err)
	require.Equal(t, `receivers:
  ebpf:
    targets:
      include:
        - {exe: "/b", pid: 77}
    observe:
      network: {capture: headers, requests: {log: all}}
    limits: {cpu_percent: 100}
exporters:
  nop:
  file: {path: "/tmp/a.json", flush_interval: 200ms}
service:
  telemetry:
    logs: {level: warn}
    metrics:
      level: normal
      readers:
        - pull: {exporter: {prometheus: {host: 127.0.0.1, port: 1234}}}
  pipelines:
    metrics:
      receivers: [ebpf]
      exporters: [file]
    logs:
      receivers: [ebpf]
      exporters: [nop]
`, text)
}

func TestYAMLUnconfigured(t *testing.T) {
	text, err := Config{Receiver: &Receiver{Unconfigured: true}, MetricsPort: 1234}.YAML()
	require.NoError(t, err)
	require.Contains(t, text, "receivers:\n  ebpf:\nexporters:\n  nop:\n")
	require.Contains(t, text, "profiles:\n      receivers: [ebpf]\n")
	require.Contains(t, text, "metrics: {receivers: [ebpf], exporters: [nop]}\n")
}

func TestYAMLOfBareCollector(t *testing.T) {
	text, err := Config{MetricsPort: 1234, OTLPPort: 1236}.YAML()
	require.NoError(t, err)
	require.Equal(t, `receivers:
  otlp:
    protocols: {grpc: {endpoint: "127.0.0.1:1236"}}
exporters:
  nop:
service:
  telemetry:
    logs: {level: warn}
    metrics:
      level: normal
      readers:
        - pull: {exporter: {prometheus: {host: 127.0.0.1, port: 1234}}}
  pipelines:
    profiles:
      receivers: [otlp]
      exporters: [nop]
`, text)
}
