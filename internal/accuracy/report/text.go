// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/accuracy/judge"
)

// commonEnds is how many of the ends of broken stacks are printed, and of binaries with frames without names.
const commonEnds = 5

// Print writes the report for a person.
func (r Report) Print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "%s of load for each program, a sample every %s on each CPU\n\n", r.Load, r.Period)
	fmt.Fprintf(w, "program\tpackage\tsamples\tto the entry\tafter 1 s\tunnamed\twhere symbols exist\tcalled broken\tcontradicted\tfalse callers\t\n")
	for _, p := range r.Programs {
		verdict := "met"
		if p.Missed() != nil {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, cmp.Or(p.Version, "-"), p.Result.Samples, percent(p.WholeShare()),
			percent(p.LaterShare()), percent(p.UnnamedOfAll()), percent(p.Unnamed()), percent(share(sum(p.Result.Errors), p.Result.Samples)),
			percent(share(p.Result.Contradicted, p.Result.Samples)), percent(share(p.Result.FalseCallers, p.Result.Callers)), verdict)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	var text strings.Builder
	for _, p := range r.Programs {
		p.details(&text)
	}
	for _, absent := range r.Absent {
		fmt.Fprintf(&text, "\nleft out: %s\n", absent)
	}
	fmt.Fprintf(&text, "\nTargets: at least %s of the samples reach the entry of their thread; at most %s of the frames have no name where symbols exist.\n",
		percent(MinWhole), percent(MaxUnnamed))
	if _, err := io.WriteString(to, text.String()); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	return nil
}

// details says where stacks end and names are missing.
func (p Program) details(w io.Writer) {
	r := p.Result
	fmt.Fprintf(w, "\n%s: %s\n", p.Name, tally(r.Entries, r.Samples, "entries"))
	if r.Exiting > 0 {
		fmt.Fprintf(w, "  %d samples more of tasks that the kernel was ending: no stack is left then\n", r.Exiting)
	}
	if len(r.Errors) > 0 {
		fmt.Fprintf(w, "  %s\n", tally(r.Errors, r.Samples, "the receiver says"))
	}
	ends(w, "stacks that end too early", r.Ends, r.Samples)
	ends(w, "callers that follow no call", r.FalseEnds, r.Callers)
	unnamed := map[string]int64{}
	for name, frames := range r.Mappings {
		if frames.Unnamed > 0 {
			unnamed[name] = frames.Unnamed
		}
	}
	for _, name := range judge.Common(unnamed, commonEnds, strings.Compare) {
		f := r.Mappings[name]
		fmt.Fprintf(w, "  frames without a name: %s: %s of its %d frames, %s where symbols exist\n", name,
			percent(share(f.Unnamed, f.All)), f.All, percent(share(f.UnnamedWithSymbols, f.WithSymbols)))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "  note: %s\n", note)
	}
}

func ends(w io.Writer, what string, counts map[judge.End]int64, whole int64) {
	for _, end := range judge.Common(counts, commonEnds, func(a, b judge.End) int { return strings.Compare(a.String(), b.String()) }) {
		fmt.Fprintf(w, "  %s: %d (%s) at %s\n", what, counts[end], percent(share(counts[end], whole)), end)
	}
}

// tally lists counts by name, as shares.
func tally[K ~string](counts map[K]int64, whole int64, what string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %s", key, percent(share(counts[key], whole))))
	}
	return what + ": " + strings.Join(parts, ", ")
}

func sum(counts map[string]int64) (total int64) {
	for _, n := range counts {
		total += n
	}
	return total
}
