// SPDX-License-Identifier: Apache-2.0

//go:build e2e && linux

package e2e

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestProfilesNeedNoFlag checks that the distribution takes pipelines of profiles by itself.
func TestProfilesNeedNoFlag(t *testing.T) {
	start(t, profilesPipeline(t)).stop(t)
}

// TestUserTurnsProfilesOff checks that what the user says about the gate wins: the Collector refuses in its own words.
func TestUserTurnsProfilesOff(t *testing.T) {
	c := launch(t, profilesPipeline(t), "--feature-gates=-service.profilesSupport")
	require.Equal(t, 1, c.wait(t))
	require.Contains(t, c.log.String(), `gated under the "service.profilesSupport" feature gate`)
}

// TestComponents holds which components the distribution has; the order is that of the Collector's own list.
func TestComponents(t *testing.T) {
	out, err := exec.Command(binary(t, "otelcol-ebpf"), "components").Output()
	require.NoError(t, err)
	type component struct{ Name, Scheme string }
	var got struct{ Receivers, Processors, Exporters, Extensions, Converters, Providers []component }
	require.NoError(t, yaml.Unmarshal(out, &got))
	names := func(list []component) (names []string) {
		for _, c := range list {
			names = append(names, c.Name)
		}
		return names
	}
	require.ElementsMatch(t, []string{"ebpf", "otlp", "host_metrics"}, names(got.Receivers))
	require.ElementsMatch(t, []string{"batch", "filter", "k8s_attributes", "memory_limiter", "resource", "resource_detection",
		"transform"}, names(got.Processors))
	require.ElementsMatch(t, []string{"debug", "file", "kafka", "nop", "otlp_grpc", "otlp_http", "prometheus", "prometheus_remote_write"}, names(got.Exporters))
	require.ElementsMatch(t, []string{"bearertokenauth", "file_storage", "health_check", "pprof", "zpages"}, names(got.Extensions))
	var schemes []string
	for _, p := range got.Providers {
		schemes = append(schemes, p.Scheme)
	}
	require.ElementsMatch(t, []string{"env", "file", "http", "yaml"}, schemes)
}

// TestRunConfigurationIsValid checks that what `make run` starts with is valid.
func TestRunConfigurationIsValid(t *testing.T) {
	out, err := exec.Command(binary(t, "otelcol-ebpf"), "validate", "--config", "../../../testdata/run.yaml").CombinedOutput()
	require.NoError(t, err, "%s", out)
}
