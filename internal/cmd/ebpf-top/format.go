// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/follow"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/terminal"
)

const (
	// maxFunction is the widest function column; longer names are cut.
	maxFunction = 80
	minFunction = 20
)

// format returns the lines of a list of at most n functions for an output that
// is no terminal.
func format(t *top, n int, byTotal bool) []string {
	lines := []string{headline(t)}
	if w := warnings(t); w != "" {
		lines = append(lines, w)
	}
	return append(lines, functionTable(t, n, byTotal, 0)...)
}

// functionTable returns the header and the rows of at most n functions; columns
// is the width of the terminal, 0 for none.
func functionTable(t *top, n int, byTotal bool, columns int) []string {
	rows := t.hottest(n, byTotal)
	width := len("FUNCTION")
	owners := make([]string, len(rows))
	widest := len("PROCESS (binary)")
	for i, r := range rows {
		owners[i] = printable(owner(r))
		width = max(width, utf8.RuneCountInString(r.function))
		widest = max(widest, utf8.RuneCountInString(owners[i]))
	}
	width = min(width, maxFunction)
	if columns > 0 {
		width = min(width, max(minFunction, columns-numbersWidth-widest-2))
	}
	self, total := "SELF%", "TOTAL%"
	if columns > 0 { // where the order can be changed, it is marked
		if byTotal {
			total = "↓" + total
		} else {
			self = "↓" + self
		}
	}
	lines := []string{terminal.Cut(fmt.Sprintf("%6s %7s %9s  %-*s  %s", self, total, "SAMPLES", width, "FUNCTION", "PROCESS (binary)"), columns)}
	for i, r := range rows {
		lines = append(lines, terminal.Cut(fmt.Sprintf("%6.1f %7.1f %9s  %-*s  %s", percent(r.self, t.samples), percent(r.total, t.samples),
			grouped(r.self), width, terminal.Cut(printable(r.function), width), owners[i]), columns))
	}
	return lines
}

// numbersWidth is the width of the columns before FUNCTION.
const numbersWidth = 6 + 1 + 7 + 1 + 9 + 2

// headline is what all samples together say. It fits into 80 columns for hosts of
// up to 99 CPUs.
func headline(t *top) string {
	processes := "procs"
	if len(t.processes) == 1 {
		processes = "proc"
	}
	return fmt.Sprintf("%s  %s samples in %vs  %s %s  %.2f CPUs busy  %.1f%% unnamed",
		t.spans.end().UTC().Format("15:04:05Z"), grouped(t.samples), t.spans.covered().Round(100*time.Millisecond).Seconds(),
		grouped(int64(len(t.processes))), processes, t.cores(), percent(t.unnamed, t.samples))
}

// warnings says what the list leaves out, or nothing.
func warnings(t *top) string {
	var parts []string
	if t.otherKinds > 0 {
		parts = append(parts, fmt.Sprintf("left out: %s samples that are not of CPU time", grouped(int64(t.otherKinds))))
	}
	if t.oversized > 0 {
		parts = append(parts, fmt.Sprintf("left out: %d lines of more than %d MiB", t.oversized, follow.MaxLine>>20))
	}
	if t.bad > 0 {
		parts = append(parts, fmt.Sprintf("not readable: %d lines, the last: %s", t.bad, printable(t.badWhy.Error())))
	}
	return strings.Join(parts, "; ")
}

// owner is the last column: the process, its id or [*] for several, and the
// binary that the function is in.
func owner(r *row) string {
	id := strconv.FormatInt(r.pid, 10)
	if r.many {
		id = "*"
	}
	out := r.process + "[" + id + "]"
	if r.binary != "" {
		out += " (" + r.binary + ")"
	}
	return out
}

// percent is part of whole, in percent.
func percent(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// grouped is n with commas between thousands.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	digits := len(strings.TrimPrefix(s, "-"))
	for i := len(s) - 3; digits > 3; i, digits = i-3, digits-3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// printable replaces control characters: names come from programs that may mean
// harm to a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
