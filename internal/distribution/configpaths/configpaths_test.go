// SPDX-License-Identifier: Apache-2.0

package configpaths

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

func convert(t *testing.T, text string) error {
	t.Helper()
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(text))
	require.NoError(t, err)
	conf, err := retrieved.AsConf()
	require.NoError(t, err)
	before := conf.ToStringMap()
	err = NewFactory().Create(confmap.ConverterSettings{}).Convert(t.Context(), conf)
	require.Equal(t, before, conf.ToStringMap(), "it changes nothing")
	return err
}

// TestPaths checks that each line begins with the whole path, the name of the receiver included.
func TestPaths(t *testing.T) {
	const text = `
receivers:
  otlp: {nonsense: 1}
  ebpf/web:
    targets: {include: [{exe: /a}, {exe: "["}]}
    observe: {on_cpu: {period: 1h}}
  ebpf/keys:
    observe: {on_cpu: {peroid: 9ms, max_depth: much}}
  ebpf/good: {}
  ebpf:
    limits: {memory_mib: 1}
`
	require.EqualError(t, convert(t, text), strings.Join([]string{
		"receivers::ebpf::limits::memory_mib: 1 is not allowed: it must lie between 32 and 65536",
		`receivers::ebpf/keys::observe::on_cpu::max_depth: "much" is not allowed: it must be a whole number`,
		"receivers::ebpf/keys::observe::on_cpu::peroid: no such key; allowed here are event, kernel_stacks, max_depth, period, report_interval, targets, user_stacks",
		`receivers::ebpf/web::targets::include[1]::exe: compiling the glob "[": at byte 1: [ without ], or nothing between them`,
		"receivers::ebpf/web::observe::on_cpu::period: 1h0m0s is not allowed: it must lie between 1ms and 1s",
	}, "\n"))
}

// TestOthersErrors checks that what the Collector itself refuses is left to it.
func TestOthersErrors(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":     "{}",
		"default":     "receivers: {ebpf: }",
		"list":        "receivers: [ebpf]",
		"text":        "receivers: ebpf",
		"config text": "receivers: {ebpf: on}",
		"config list": "receivers: {ebpf: [1]}",
		"name":        "receivers: {ebpf/: {limits: {memory_mib: 1}}}",
	} {
		t.Run(name, func(t *testing.T) { require.NoError(t, convert(t, text)) })
	}
}
