// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// moreLoad is how much the load average must rise to fire the policy about it.
const moreLoad = 4

// configuration is the Collector's: it observes nothing until a policy fires.
func configuration(dir string, services []*played) (string, error) {
	load, err := loadNow()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("receivers:\n  ebpf:\n    observe: {}\n    policies:\n")
	for _, p := range services {
		fmt.Fprintf(&b, "      - name: %s\n        targets: [{pid: %d}]\n", p.name, p.cmd.Process.Pid)
		fmt.Fprintf(&b, "        when: [%s]\n", strings.ReplaceAll(p.rule, "LOAD", fmt.Sprintf("%.2f", load+moreLoad)))
		b.WriteString("        run: [{on_cpu: {report_interval: 1s}}]\n        duration: 5s\n        silence: 10m\n")
	}
	fmt.Fprintf(&b, `
exporters:
  file/profiles: {path: %[1]s/profiles.json, flush_interval: 100ms}
  file/logs: {path: %[1]s/logs.json, flush_interval: 100ms}
service:
  telemetry: {metrics: {level: none}}
  pipelines:
    profiles: {receivers: [ebpf], exporters: [file/profiles]}
    logs: {receivers: [ebpf], exporters: [file/logs]}
`, dir)
	return b.String(), nil
}
