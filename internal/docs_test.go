// SPDX-License-Identifier: Apache-2.0

package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// link is the target of a Markdown link, heading a heading.
var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
)

// TestLinksLeadSomewhere holds that every relative link of the documentation leads to a file, and to a heading where it names one.
func TestLinksLeadSomewhere(t *testing.T) {
	seen := 0
	for _, file := range markdownFiles(t) {
		for _, target := range relativeLinks(read(t, file)) {
			seen++
			if why := broken(t, file, target); why != "" {
				t.Errorf("%s: the link to %s: %s", file, target, why)
			}
		}
	}
	require.Greater(t, seen, 5, "the links were not found")
}

func markdownFiles(t *testing.T) (files []string) {
	t.Helper()
	const root = ".."
	require.NoError(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(filepath.ToSlash(rel))
		}
		if filepath.Ext(p) == ".md" {
			files = append(files, p)
		}
		return nil
	}))
	return files
}

// relativeLinks returns the links that lead to files of the repository.
func relativeLinks(text string) (targets []string) {
	for _, match := range link.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(match[1], ":") { // https://, mailto:
			targets = append(targets, match[1])
		}
	}
	return targets
}

// broken says why a link leads nowhere, or nothing.
func broken(t *testing.T, file, target string) string {
	t.Helper()
	path, anchor, _ := strings.Cut(target, "#")
	to := file
	if path != "" {
		to = filepath.Join(filepath.Dir(file), path)
	}
	if _, err := os.Stat(to); err != nil {
		return err.Error()
	}
	if anchor == "" {
		return ""
	}
	for _, match := range heading.FindAllStringSubmatch(read(t, to), -1) {
		if slug(match[1]) == anchor {
			return ""
		}
	}
	return "there is no such heading"
}

// slug is how GitHub makes an anchor of a heading.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// TestBrokenLinksAreSeen holds that the check would notice.
func TestBrokenLinksAreSeen(t *testing.T) {
	require.Equal(t, []string{"docs/a.md", "#b"}, relativeLinks("[a](docs/a.md) [b](#b) [c](https://c) [d] (e)"))
	dir := t.TempDir()
	file := filepath.Join(dir, "a.md")
	require.NoError(t, os.WriteFile(file, []byte("# A `head`, or two\n"), 0o600))
	require.Empty(t, broken(t, file, "a.md"))
	require.Empty(t, broken(t, file, "#a-head-or-two"))
	require.Contains(t, broken(t, file, "b.md"), "no such file")
	require.Equal(t, "there is no such heading", broken(t, file, "a.md#b"))
}

// reasons are the places in the source that name what the metrics report, each with its form there.
var reasons = map[string]*regexp.Regexp{
	"symbol/reason/reason.go": regexp.MustCompile(`Name = "([a-z_]+)"`),
	"process/stats.go":        regexp.MustCompile(`reason\w+ += "([a-z_]+)"`),
	"observe/*/*_linux.go":    regexp.MustCompile(`Reason: "([a-z_]+)"`),
	"engine/stats*_linux.go":  regexp.MustCompile(`LossKey\{(?:probeProcess|"\w+"), "([a-z_]+)"\}`),
	"engine/[a-z]*_linux.go":  regexp.MustCompile(`degrade\("([a-z_.]+)"|unread\w+ += "([a-z_]+)"|Degraded\["([a-z_]+)"\]`),
	"../receiver/sink.go":     regexp.MustCompile(`dropped\w+ += "([a-z_]+)"`),
}

// TestReasonsAreDocumented holds that docs/reference/telemetry.md has every reason that a metric names.
func TestReasonsAreDocumented(t *testing.T) {
	var rows []string // the words of the first two columns, of probe and reason
	for line := range strings.Lines(read(t, "../docs/reference/telemetry.md")) {
		if cells := strings.Split(line, "|"); len(cells) > 3 && cells[0] == "" {
			rows = append(rows, regexp.MustCompile(`[a-z_.]+`).FindAllString(cells[1]+" "+cells[2], -1)...)
		}
	}
	for pattern, find := range reasons {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		seen := 0
		for _, file := range files {
			for _, match := range find.FindAllStringSubmatch(read(t, file), -1) {
				for _, reason := range match[1:] {
					if reason != "" {
						seen++
						require.Contains(t, rows, reason, "%s", file)
					}
				}
			}
		}
		require.Positive(t, seen, "%s: no reasons were found", pattern)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// TestRedactedHeadersAreDocumented holds that the documentation lists the headers that are redacted by default.
func TestRedactedHeadersAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/configuration.md")
	require.NoError(t, err)
	list := regexp.MustCompile(`(?s)redact:\n  headers: \[([^\]]*)\]\n` + "```").FindSubmatch(text)
	require.NotNil(t, list)
	documented := regexp.MustCompile(`[^\s",]+`).FindAllString(string(list[1]), -1)
	require.Equal(t, requests.CredentialHeaders(), documented)
}
