// SPDX-License-Identifier: Apache-2.0

//go:build e2e && linux

package e2e

import (
	"cmp"
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

// TestComponents holds which components the distribution has.
func TestComponents(t *testing.T) {
	out, err := exec.Command(binary(t, distribution), "components").Output()
	require.NoError(t, err)
	var sections map[string]yaml.Node
	require.NoError(t, yaml.Unmarshal(out, &sections))
	for section, want := range components {
		var list []struct{ Name, Scheme string }
		node := sections[section]
		require.NoError(t, node.Decode(&list), section)
		var got []string
		for _, c := range list {
			got = append(got, cmp.Or(c.Scheme, c.Name))
		}
		require.ElementsMatch(t, want, got, section)
	}
}

// TestRunConfigurationIsValid checks that what `make run` starts with is valid.
func TestRunConfigurationIsValid(t *testing.T) {
	out, err := exec.Command(binary(t, distribution), "validate", "--config", "../../../testdata/run.yaml").CombinedOutput()
	require.NoError(t, err, "%s", out)
}
