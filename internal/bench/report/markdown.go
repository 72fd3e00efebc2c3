// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Markdown writes the report as a page: each target with its figure, then all figures as [Report.Print] has them. The commit is that of the
// source of the Collector that was measured.
func (r *Report) Markdown(to io.Writer, commit string) error {
	var all bytes.Buffer
	if err := r.Print(&all); err != nil {
		return err
	}
	figures, _, _ := strings.Cut(all.String(), "\nTargets\n")
	var page strings.Builder
	fmt.Fprintf(&page, "# Benchmark\n\n")
	fmt.Fprintf(&page, "`make bench` writes this page. [performance.md](performance.md) explains how each figure is measured.\n\n")
	fmt.Fprintf(&page, "Commit %s on Linux %s with %d CPUs. The rest of the host used %.2f CPUs just before.\n\n", commit, r.Host.Kernel, r.Host.CPUs, r.Host.Others)
	fmt.Fprintf(&page, "## Targets\n\n| target | limit | figure | met |\n|---|---|---|---|\n")
	for _, t := range r.Targets {
		met := map[string]string{"PASS": "yes", "FAIL": "**no**"}[t.Verdict()]
		figure := t.Figure
		if !t.Measured {
			met, figure = "not measured", ""
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", cell(t.Name), cell(t.Limit), cell(figure), met)
	}
	fmt.Fprintf(&page, "\n## Figures\n\n```\n%s\n```\n", strings.TrimRight(figures, "\n"))
	if _, err := io.WriteString(to, page.String()); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// cell is text within a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
