// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/golog"
)

const (
	maxLine     = 64 << 10
	maxPackages = 200
	tailLines   = 40
)

// Result is what one boot yielded.
type Result struct {
	Release  string // of the kernel that ran
	Packages []*PackageResult
	Finished bool     // init came to its end
	Tail     []string // last lines of the console
}

// PackageResult is what became of one test binary.
type PackageResult struct {
	Name string
	Exit int // of the binary; -1 when it did not end
	Log  golog.Log
}

// Announce functions write init's lines.

// AnnounceKernel writes which kernel runs.
func AnnounceKernel(w io.Writer, release string) error { return announce(w, markKernel+release) }

// AnnounceBegin writes that a package's tests start.
func AnnounceBegin(w io.Writer, name string) error { return announce(w, markBegin+name) }

// AnnounceEnd writes how a package's test binary ended.
func AnnounceEnd(w io.Writer, name string, exit int) error {
	return announce(w, fmt.Sprintf("%s%s exit=%d", markEnd, name, exit))
}

// AnnounceResult ends the log; without it the run counts as failed.
func AnnounceResult(w io.Writer, ok, failed int) error {
	return announce(w, fmt.Sprintf("%sok=%d failed=%d", markResult, ok, failed))
}

// announce begins a line of its own, whatever the tests have left on the console.
func announce(w io.Writer, line string) error {
	_, err := fmt.Fprintf(w, "\n%s\n", line)
	return err
}

// ReadConsole reads a virtual machine's console until it ends, and calls booted when init speaks. The error is that of
// reading; the result holds what came.
func ReadConsole(r io.Reader, booted func()) (*Result, error) {
	res := &Result{}
	br := bufio.NewReaderSize(r, maxLine)
	var current *PackageResult
	for {
		line, err := readLine(br)
		if line != "" {
			current = res.add(strings.TrimRight(line, "\r\n"), current)
			if strings.HasPrefix(line, markKernel) {
				booted()
			}
		}
		if errors.Is(err, io.EOF) {
			return res, nil
		}
		if err != nil {
			return res, fmt.Errorf("reading the console: %w", err)
		}
	}
}

// readLine returns a line, cut where it is too long.
func readLine(br *bufio.Reader) (string, error) {
	line, err := br.ReadSlice('\n')
	text := string(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = br.ReadSlice('\n')
	}
	return text, err
}

// add takes one line of the console and returns the package whose tests run after it.
func (r *Result) add(line string, current *PackageResult) *PackageResult {
	if len(r.Tail) == tailLines {
		r.Tail = append(r.Tail[:0], r.Tail[1:]...)
	}
	r.Tail = append(r.Tail, line)
	switch {
	case strings.HasPrefix(line, markKernel):
		r.Release = line[len(markKernel):]
	case strings.HasPrefix(line, markBegin) && len(r.Packages) < maxPackages:
		current = &PackageResult{Name: line[len(markBegin):], Exit: -1}
		r.Packages = append(r.Packages, current)
	case strings.HasPrefix(line, markEnd):
		if _, code, ok := strings.Cut(line, " exit="); ok && current != nil {
			if exit, err := strconv.Atoi(code); err == nil {
				current.Exit = exit
			}
		}
		return nil
	case strings.HasPrefix(line, markResult):
		r.Finished = true
	case current != nil:
		current.Log.Add(line)
	}
	return current
}

// Counts sums the tests of all packages up.
func (r *Result) Counts() (passed, failed, skipped int) {
	for _, p := range r.Packages {
		passed += p.Log.Count(golog.Passed)
		failed += p.Log.Count(golog.Failed) + p.Log.Count(golog.Unfinished)
		skipped += p.Log.Count(golog.Skipped)
	}
	return passed, failed, skipped
}

// OK reports whether the run came to its end, all packages were run and all binaries ended well, with at least one test.
func (r *Result) OK(packages int) bool {
	passed, failed, _ := r.Counts()
	if !r.Finished || failed > 0 || passed == 0 || len(r.Packages) != packages {
		return false
	}
	for _, p := range r.Packages {
		if p.Exit != 0 {
			return false
		}
	}
	return true
}
