// SPDX-License-Identifier: Apache-2.0

// Package golog reads what `go test -v` prints: which tests passed, failed or were skipped, and what they said.
// The format is that of the testing package: "=== RUN   Name" lines and "--- PASS: Name (0.00s)" lines.
package golog // import "github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/golog"

import (
	"regexp"
	"strings"
)

const (
	maxTests = 20000 // of one log; more are not recorded
	maxLines = 200   // kept of the output of one test, the last ones
)

// Status is how a test ended.
type Status string

// A test whose end the log does not show is Unfinished: its binary crashed, hung or was killed.
const (
	Passed     Status = "PASS"
	Failed     Status = "FAIL"
	Skipped    Status = "SKIP"
	Unfinished Status = "UNFINISHED"
)

// Test is one test or subtest.
type Test struct {
	Name   string // as in the log, subtests with slashes
	Status Status
	Took   string   // as in the log, such as 1.23s; empty when it did not end
	Output []string // its lines, without indentation; at most the last 200
}

// Log collects the tests of one binary. The zero value is ready.
type Log struct {
	Tests   []*Test  // in the order in which they started
	Other   []string // lines outside of tests, such as those of TestMain; at most the last 200
	byName  map[string]*Test
	current *Test
}

var (
	startLine = regexp.MustCompile(`^=== (RUN|CONT|NAME|PAUSE) +(\S*)$`) // NAME has no name after the last test
	endLine   = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+s)\)$`)
)

// Add takes one line, without its line feed; a carriage return at the end is dropped.
func (l *Log) Add(line string) {
	line = strings.TrimSuffix(line, "\r")
	if m := startLine.FindStringSubmatch(line); m != nil {
		l.current = nil
		if m[2] != "" {
			l.current = l.test(m[2])
		}
		return
	}
	if m := endLine.FindStringSubmatch(line); m != nil {
		l.end(m[2], Status(m[1]), m[3])
		return
	}
	if t := l.current; t != nil {
		t.Output = appendBounded(t.Output, strings.TrimSpace(line))
	} else {
		l.Other = appendBounded(l.Other, line)
	}
}

// end records how a test ended. What follows a failed test may still be its own: a panic prints its trace after it.
func (l *Log) end(name string, status Status, took string) {
	t := l.test(name)
	if t == nil {
		return
	}
	t.Status, t.Took = status, took
	if status != Failed {
		l.current = nil
	}
}

// appendBounded drops the first line when there are too many.
func appendBounded(lines []string, line string) []string {
	if len(lines) == maxLines {
		lines = append(lines[:0], lines[1:]...)
	}
	return append(lines, line)
}

// test returns the record of a test and makes it if there is room.
func (l *Log) test(name string) *Test {
	if t, ok := l.byName[name]; ok {
		return t
	}
	if len(l.Tests) == maxTests {
		return nil
	}
	if l.byName == nil {
		l.byName = map[string]*Test{}
	}
	t := &Test{Name: name, Status: Unfinished}
	l.byName[name] = t
	l.Tests = append(l.Tests, t)
	return t
}

// Count returns how many tests ended with a status.
func (l *Log) Count(s Status) int {
	n := 0
	for _, t := range l.Tests {
		if t.Status == s {
			n++
		}
	}
	return n
}

// Reason returns the last line that a test logged, without its position in the source; for a skipped test it is why.
func (t *Test) Reason() string {
	for i := len(t.Output) - 1; i >= 0; i-- {
		if line := t.Output[i]; line != "" {
			return sourcePlace.ReplaceAllString(line, "")
		}
	}
	return "no reason given"
}

var sourcePlace = regexp.MustCompile(`^[\w.-]+\.go:\d+: `)
