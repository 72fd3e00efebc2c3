// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// hostile are names that would break out of a page that trusts them.
var hostile = []string{
	`</script><script>document.title="owned"</script>`,
	`<img src=x onerror="document.title='owned'">`,
	`--><!-- ]]>`,
	"\"'`\\ \u2028 \x00\x1b[2J @DATA@ @PAGE@ ${1} {{.}}",
	"not UTF-8: \xff\xfe",
}

func hostilePage(t *testing.T) string {
	var profiles []*model.Profile
	for _, name := range hostile {
		profiles = append(profiles, onCPU(name, sample(1, name, frame(model.FrameNative, name, 1))))
	}
	page, err := graph(t, profiles...).Page()
	require.NoError(t, err)
	return string(page)
}

// TestPageKeepsNamesIn holds that the page has as many elements as its skeleton whatever the names are, and that no
// name is changed but for what is no text.
func TestPageKeepsNamesIn(t *testing.T) {
	empty, err := (&Graph{}).Page()
	require.NoError(t, err)
	page := hostilePage(t)
	const open, end = `<script type="application/json" id="data">`, `</script>`
	_, rest, found := strings.Cut(page, open)
	require.True(t, found)
	text, _, found := strings.Cut(rest, end)
	require.True(t, found)
	require.NotContains(t, text, "<")
	require.NotContains(t, text, "\u2028")
	require.Equal(t, skeletonOf(t, string(empty)), strings.Replace(page, text, "", 1))

	var got struct{ Graphs []drawing }
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	control := strings.NewReplacer("\x00", "\ufffd", "\x1b", "\ufffd") // which no message of ours has
	for _, name := range hostile {
		require.Contains(t, got.Graphs[0].Names, control.Replace(strings.ToValidUTF8(name, "\ufffd")))
	}
}

func skeletonOf(t *testing.T, page string) string {
	const open, end = `id="data">`, `</script>`
	before, rest, found := strings.Cut(page, open)
	require.True(t, found)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found)
	return before + open + end + after
}

// TestPageIsSelfContained holds that the page asks for nothing and may run only what is in it.
func TestPageIsSelfContained(t *testing.T) {
	page := hostilePage(t)
	require.NotRegexp(t, regexp.MustCompile(`<(?:script|img|link|iframe)[^>]*(?:src|href)=`), page)
	require.NotContains(t, page, "@import")
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]+)"`).FindStringSubmatch(page)
	require.NotNil(t, policy)
	require.Contains(t, policy[1], "default-src 'none'")
	require.Equal(t, 3, strings.Count(policy[1], "'sha256-"))
	require.Equal(t, 4, strings.Count(page, "</script>"))
	for _, placeholder := range []string{"@POLICY@", "@LICENSE_D3@", "@STYLE@", "@D3@", "@FLAMEGRAPH@"} {
		require.NotContains(t, page, placeholder)
	}
	require.Contains(t, page, "Copyright 2010-2023 Mike Bostock")
	require.Less(t, len(page), 320<<10)
}

// browse is what Chromium makes of a page: the document that it has drawn, without the scripts.
func browse(t *testing.T, page string) string {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed; the other tests read the page as text")
	}
	file := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(file, []byte(page), 0o600))
	out, err := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
		"--virtual-time-budget=2000", "--dump-dom", "file://"+file).Output()
	require.NoError(t, err)
	drawn, _, found := strings.Cut(string(out), `<script type="application/json"`)
	require.True(t, found)
	return drawn
}

// TestPageInABrowser lets Chromium draw the page: the truth about what a browser makes of it.
func TestPageInABrowser(t *testing.T) {
	drawn := browse(t, hostilePage(t))
	require.Contains(t, drawn, "<title>Flame graph 2026-11-21 09:00:00Z to 2026-11-21 09:00:05Z</title>", "no name ran")
	require.Contains(t, drawn, "5 samples, 45.0 ms of CPU time in 5.00 s")
	// One box for all, and a service, a thread and a function of each name.
	require.Equal(t, 1+3*len(hostile), strings.Count(drawn, `class="frame"`))
	require.Equal(t, 3, strings.Count(drawn, `name="&lt;/script&gt;&lt;script&gt;document.title=&quot;owned&quot;&lt;/script&gt;"`))
	require.Equal(t, 3, strings.Count(drawn, `>&lt;/script&gt;&lt;script&gt;document.title="owned"&lt;/script&gt;</div>`))
	require.Len(t, regexp.MustCompile(`<rect height="18" fill="[^"]+" width="[0-9.]+">`).FindAllString(drawn, -1), 1+3*len(hostile))
	require.NotContains(t, drawn, "<img")
	require.NotContains(t, drawn, "<script>")
}

// TestGroupingInABrowser holds that what is not grouped by is merged.
func TestGroupingInABrowser(t *testing.T) {
	main := frame(model.FrameNative, "main", 1)
	g := graph(t,
		onCPU("shop", sample(1, "a", main), sample(2, "b", main)),
		onCPU("pay", sample(4, "a", main), sample(8, "b", main, frame(model.FrameKernel, "read", 0))))
	text, err := g.Page()
	require.NoError(t, err)
	boxes := func(off ...string) []string {
		page := string(text)
		for _, id := range off {
			page = strings.Replace(page, `id="`+id+`" checked`, `id="`+id+`"`, 1)
		}
		var out []string
		for _, m := range regexp.MustCompile(` name="([a-z]+)" class="frame"`).FindAllStringSubmatch(browse(t, page), -1) {
			out = append(out, m[1])
		}
		slices.Sort(out)
		return out
	}
	require.Equal(t, []string{"a", "a", "all", "b", "b", "main", "main", "main", "main", "pay", "read", "shop"}, boxes())
	require.Equal(t, []string{"all", "main", "main", "pay", "read", "shop"}, boxes("by-thread"))
	require.Equal(t, []string{"a", "all", "b", "main", "main", "read"}, boxes("by-service"))
	require.Equal(t, []string{"all", "main", "read"}, boxes("by-service", "by-thread"))
}

// TestNoticeNamesWhatIsEmbedded holds that the third-party files are those that NOTICE tells.
func TestNoticeNamesWhatIsEmbedded(t *testing.T) {
	notice, err := os.ReadFile("../../NOTICE")
	require.NoError(t, err)
	for _, name := range []string{"d3.min.js", "d3-flamegraph.min.js"} {
		text, err := assets.ReadFile("assets/" + name)
		require.NoError(t, err)
		require.Contains(t, string(notice), fmt.Sprintf("SHA-256 %x", sha256.Sum256(text)))
	}
}
