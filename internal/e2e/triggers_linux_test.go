// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long the demonstration may take under the other load of CI's machine; for people it is a minute.
const patience = "100s"

// TestMeasureTriggers checks that policies of all five monitors fire once each for a Go server, and that the profiles show the guilty
// functions: it runs what `make demo-trigger` shows.
func TestMeasureTriggers(t *testing.T) {
	needRoot(t)
	collector := distribution(t)
	demo := filepath.Join(t.TempDir(), "demo-trigger")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", demo, "./internal/demo/trigger")
	build.Dir = "../.."
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	output, err = exec.CommandContext(ctx, demo, "-binary", collector, "-within", patience).CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "each policy has fired once")
	t.Logf("%s", output)
}
