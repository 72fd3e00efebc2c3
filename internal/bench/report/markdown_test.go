// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMarkdown checks that each target is a row with its figure and whether it is met, and that all figures follow.
func TestMarkdown(t *testing.T) {
	r := whole()
	r.Busy.RSSAnon = 70 << 20
	r.TLS = TLS{}
	r.Judge()
	var page strings.Builder
	require.NoError(t, r.Markdown(&page, "abc1234"))
	text := page.String()
	require.Contains(t, text, "Commit abc1234 on Linux 6.18 with 2 CPUs. The rest of the host used 0.10 CPUs just before.")
	rows := strings.Count(text, "\n| ") - 1 // without the head
	require.Equal(t, len(r.Targets), rows)
	require.Contains(t, text, "| lost samples | 0 | 0 | yes |")
	require.Contains(t, text, "| RssAnon, highest | 50.0 MiB | 70.0 MiB | **no** |")
	require.Contains(t, text, "| not measured |")
	require.Contains(t, text, "Samples in exported profiles against CPU time")
	require.NotContains(t, text, "PASS")
}
