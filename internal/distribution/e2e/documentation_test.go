// SPDX-License-Identifier: Apache-2.0

//go:build e2e && linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// blocks are those of Markdown that hold YAML.
var blocks = regexp.MustCompile("(?ms)^```yaml\\n(.*?)^```$")

// TestDocumentedConfigurations holds that what the documentation shows as a whole configuration is valid.
func TestDocumentedConfigurations(t *testing.T) {
	if guest.Running() {
		t.Skip("the documentation is not in the guest, and the same on every kernel")
	}
	const root = "../../.."
	files, err := filepath.Glob(root + "/docs/*.md")
	require.NoError(t, err)
	whole := 0
	for _, file := range append(files, root+"/README.md") {
		text, err := os.ReadFile(filepath.Clean(file))
		require.NoError(t, err)
		for i, block := range blocks.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(block[1], "\nservice:\n") || !strings.Contains(block[1], "pipelines:") {
				continue // a part of one
			}
			whole++
			path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.yaml", i))
			require.NoError(t, os.WriteFile(path, []byte(block[1]), 0o600))
			out, err := exec.Command(binary(t, "otelcol-ebpf"), "validate", "--config", path).CombinedOutput()
			require.NoError(t, err, "%s, block %d: %s", file, i, out)
		}
	}
	require.GreaterOrEqual(t, whole, 2, "the blocks were not found")
}
