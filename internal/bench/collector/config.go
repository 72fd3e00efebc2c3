// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strings"
	"text/template"
	"time"
)

// Config is what a run of the Collector is configured with. All it listens on is on the loopback interface.
type Config struct {
	// Receiver is nil for the bare Collector, which has an OTLP receiver without senders instead.
	Receiver *Receiver
	// File is where the file exporter writes profiles, or with [Receiver.Network] metrics, as OTLP JSON lines; empty: the
	// nop exporter.
	File string
	// MetricsPort serves the Collector's own metrics, OTLPPort is the bare Collector's.
	MetricsPort, OTLPPort int
	// PprofPort serves the Go profiles of the Collector; 0: none.
	PprofPort int
}

// Receiver configures on_cpu, unless Network is set.
type Receiver struct {
	// Unconfigured has what the receiver does by default, on_cpu and network; no other field is set then. Metrics and logs,
	// without whose pipelines network would not run, go to the nop exporter.
	Unconfigured bool
	Period       time.Duration
	KernelStacks bool
	// CPUPercent is limits::cpu_percent; 0: the default.
	CPUPercent int
	// ReportInterval is that of on_cpu; 0: the default.
	ReportInterval time.Duration
	// Network is observed instead of on_cpu; its logs go to the nop exporter.
	Network *Network
	// Include are selectors of targets::include; none: every process.
	Include []Selector
}

// Network configures network.
type Network struct {
	Capture string // none or headers
	Log     string // requests::log
}

// Selector names processes.
type Selector struct {
	Exe string // a glob on the path of the executable
	PID int    // 0: any
}

var configTemplate = template.Must(template.New("").Parse(`receivers:
{{- with .Receiver}}
  ebpf:
{{- if not .Unconfigured}}
{{- with .Include}}
    targets:
      include:
{{- range .}}
        - {exe: {{printf "%q" .Exe}}{{with .PID}}, pid: {{.}}{{end}}}
{{- end}}
{{- end}}
    observe:
{{- with .Network}}
      network: {capture: {{.Capture}}, requests: {log: {{.Log}}}}
{{- else}}
      on_cpu: {period: {{.Period}}, kernel_stacks: {{.KernelStacks}}{{with .ReportInterval}}, report_interval: {{.}}{{end}}}
{{- end}}
{{- if .CPUPercent}}
    limits: {cpu_percent: {{.CPUPercent}}}
{{- end}}
{{- end}}
{{- else}}
  otlp:
    protocols: {grpc: {endpoint: "127.0.0.1:{{$.OTLPPort}}"}}
{{- end}}
exporters:
  nop:
{{- if .File}}
  file: {path: {{printf "%q" .File}}, flush_interval: 200ms}
{{- end}}
{{- if .PprofPort}}
extensions:
  pprof: {endpoint: "127.0.0.1:{{.PprofPort}}"}
{{- end}}
service:
{{- if .PprofPort}}
  extensions: [pprof]
{{- end}}
  telemetry:
    logs: {level: warn}
    metrics:
      level: normal
      readers:
        - pull: {exporter: {prometheus: {host: 127.0.0.1, port: {{.MetricsPort}}}}}
  pipelines:
{{- if .OfNetwork}}
    metrics:
      receivers: [ebpf]
      exporters: [{{if .File}}file{{else}}nop{{end}}]
    logs:
      receivers: [ebpf]
      exporters: [nop]
{{- else}}
    profiles:
      receivers: [{{if .Receiver}}ebpf{{else}}otlp{{end}}]
      exporters: [{{if .File}}file{{else}}nop{{end}}]
{{- if and .Receiver .Receiver.Unconfigured}}
    metrics: {receivers: [ebpf], exporters: [nop]}
    logs: {receivers: [ebpf], exporters: [nop]}
{{- end}}
{{- end}}
`))

// OfNetwork reports whether network is observed, not on_cpu.
func (c Config) OfNetwork() bool { return c.Receiver != nil && c.Receiver.Network != nil }

// YAML is the configuration file.
func (c Config) YAML() (string, error) {
	var text strings.Builder
	err := configTemplate.Execute(&text, c)
	return text.String(), err
}
