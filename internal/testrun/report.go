// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/golog"
)

// report collects results and prints them.
type report struct {
	out    io.Writer
	strict bool
	repeat int
	load   load // of the machine, if tests were repeated

	mu      sync.Mutex
	counts  map[golog.Status]int
	failed  []string            // titles of tests and processes
	skipped map[string][]string // tests by reason
	runs    map[string]*runs    // by test, if they are repeated
	took    map[string]time.Duration
	cpu     time.Duration
	running map[*unit]time.Time // since when
}

// started notes that a process runs, add that it has ended.
func (r *report) started(u *unit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == nil {
		r.running = map[*unit]time.Time{}
	}
	r.running[u] = time.Now()
}

// progress prints what runs, what has run longest first.
func (r *report) progress() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	for _, u := range slices.SortedFunc(maps.Keys(r.running), func(a, b *unit) int { return r.running[a].Compare(r.running[b]) }) {
		list = append(list, fmt.Sprintf("%s for %.0f s", u.title(), time.Since(r.running[u]).Seconds()))
	}
	if len(list) == 0 {
		list = []string{"compiling"}
	}
	fmt.Fprintf(r.out, "testrun: at it: %s\n", strings.Join(list, ", "))
}

// runs counts those of one test.
type runs struct{ passed, failed, skipped int }

// add takes a result and prints a line, and the output of what failed.
func (r *report) add(res *result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts, r.skipped, r.runs, r.took = map[golog.Status]int{}, map[string][]string{}, map[string]*runs{}, map[string]time.Duration{}
	}
	r.cpu += res.cpu
	delete(r.running, res.unit)
	verdict := "ok  "
	var failures strings.Builder
	for _, t := range res.log.Tests {
		r.counts[t.Status]++
		title := res.name() + " " + t.Name
		bad := t.Status == golog.Failed || t.Status == golog.Unfinished
		if t.Status == golog.Skipped && r.repeat == 1 {
			r.skipped[t.Reason()] = append(r.skipped[t.Reason()], title)
		}
		if !strings.Contains(t.Name, "/") {
			d, _ := time.ParseDuration(t.Took) // empty if it did not end
			r.took[title] += d
			r.count(title, t.Status)
			if bad && r.repeat == 1 {
				r.failed = append(r.failed, title)
			}
		}
		if bad {
			verdict = "FAIL"
			fmt.Fprintf(&failures, "--- FAIL: %s (%s) of %s\n", t.Name, cmp.Or(t.Took, "did not end"), res.name())
			for _, line := range t.Output {
				fmt.Fprintf(&failures, "    %s\n", line)
			}
		}
	}
	if text := res.failure(); text != "" {
		verdict = "FAIL"
		r.failed = append(r.failed, text)
		fmt.Fprintf(&failures, "%s\n    %s\n", text, strings.Join(res.log.Other, "\n    "))
	}
	race := ""
	if res.race {
		race = ", race detector"
	}
	fmt.Fprintf(r.out, "%s\t%s\t%.1fs, CPU %.1fs%s\n%s", verdict, res.title(), res.took.Seconds(), res.cpu.Seconds(), race, &failures)
}

func (r *report) count(title string, s golog.Status) {
	one := r.runs[title]
	if one == nil {
		one = &runs{}
		r.runs[title] = one
	}
	switch s {
	case golog.Passed:
		one.passed++
	case golog.Skipped:
		one.skipped++
	default:
		one.failed++
	}
}

// end prints what all tests have in common, and reports whether they passed.
func (r *report) end(took time.Duration) bool {
	if r.repeat > 1 {
		r.printRuns()
	}
	r.printSlowest()
	r.printSkipped()
	fmt.Fprintf(r.out, "testrun: %d passed, %d failed, %d skipped, in %.0f s, CPU %.0f s\n",
		r.counts[golog.Passed], r.counts[golog.Failed]+r.counts[golog.Unfinished], r.counts[golog.Skipped], took.Seconds(), r.cpu.Seconds())
	for _, title := range r.failed {
		fmt.Fprintf(r.out, "testrun: failed: %s\n", title)
	}
	if r.strict && r.counts[golog.Skipped] > 0 {
		fmt.Fprintf(r.out, "testrun: failed: %d tests were skipped, and STRICT=1 allows none\n", r.counts[golog.Skipped])
		return false
	}
	return len(r.failed) == 0
}

// printRuns prints how often each repeated test passed. One that passed in half of its runs, or fewer, has failed.
func (r *report) printRuns() {
	fmt.Fprintf(r.out, "\nMachine: %s\n", r.load)
	for _, title := range slices.Sorted(maps.Keys(r.runs)) {
		one := r.runs[title]
		switch ran := one.passed + one.failed; {
		case ran == 0:
			fmt.Fprintf(r.out, "  skipped      %s\n", title)
		case 2*one.passed > ran:
			fmt.Fprintf(r.out, "  %2d of %2d     %s\n", one.passed, ran, title)
		default:
			fmt.Fprintf(r.out, "  %2d of %2d !!  %s\n", one.passed, ran, title)
			r.failed = append(r.failed, fmt.Sprintf("%s: passed %d of %d times", title, one.passed, ran))
		}
	}
}

// slowest is how many of the tests that took longest are printed.
const slowest = 10

func (r *report) printSlowest() {
	titles := slices.SortedFunc(maps.Keys(r.took), func(a, b string) int { return cmp.Or(cmp.Compare(r.took[b], r.took[a]), cmp.Compare(a, b)) })
	fmt.Fprintln(r.out, "\nThe slowest tests:")
	for _, title := range titles[:min(len(titles), slowest)] {
		fmt.Fprintf(r.out, "  %6.1fs %s\n", r.took[title].Seconds(), title)
	}
}

func (r *report) printSkipped() {
	if len(r.skipped) == 0 {
		return
	}
	fmt.Fprintln(r.out, "\nSkipped:")
	for _, reason := range slices.Sorted(maps.Keys(r.skipped)) {
		fmt.Fprintf(r.out, "  %s\n", reason)
		for _, title := range r.skipped[reason] {
			fmt.Fprintf(r.out, "    %s\n", title)
		}
	}
}
