// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMeasureHostileSymbols has users execute in files whose symbol tables have no room in memory, next to a steady service. The program that
// runs them fails if a profile of the service is missing or not whole, if one of its functions has no name, if the last interval is not
// exported, or if SIGTERM takes 5 s. `make soak-hostile` is the long form, with all attacks.
func TestMeasureHostileSymbols(t *testing.T) {
	needRoot(t)
	binary := distribution(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("no compiler: %v", err)
	}
	hostile := filepath.Join(t.TempDir(), "hostile")
	out, err := exec.Command("go", "build", "-o", hostile, "../hostile").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(hostile, "-binary", binary, "-attacks", "symbols", "-symbols", "150000", "-memory", "32", "-processes", "4",
		"-duration", "9s", "-settle", "2s", "-log", filepath.Join(t.TempDir(), "collector.log")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}
