// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/aptkernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/golog"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// report prints what one kernel yielded and reports whether all is well. A nil result is a machine that never ran.
func report(w io.Writer, o options, img aptkernel.Image, res *guest.Result, err error, took time.Duration) bool {
	if res == nil {
		res = &guest.Result{}
	}
	ok := err == nil && res.OK(len(o.packages))
	passed, failed, skipped := res.Counts()
	fmt.Fprintf(w, "\nkernel %s: %s, %s, in %s\n", img.Kernel.Name, orUnknown(res.Release), img.Package, took.Round(time.Second))
	for _, p := range res.Packages {
		reportPackage(w, p, o.verbose)
	}
	if err != nil {
		fmt.Fprintf(w, "  error: %v\n", err)
	}
	if !res.Finished {
		fmt.Fprintf(w, "  the machine ended before the tests did; whole console: %s; its end:\n", consolePath(o, img))
		printLines(w, res.Tail)
	}
	fmt.Fprintf(w, "kernel %s: %d passed, %d failed, %d skipped: %s\n", img.Kernel.Name, passed, failed, skipped, verdict(ok))
	return ok
}

func reportPackage(w io.Writer, p *guest.PackageResult, verbose bool) {
	fmt.Fprintf(w, "  %-28s %3d passed, %d failed, %d skipped (exit %d)\n", p.Name,
		p.Log.Count(golog.Passed), p.Log.Count(golog.Failed)+p.Log.Count(golog.Unfinished), p.Log.Count(golog.Skipped), p.Exit)
	for _, t := range p.Log.Tests {
		switch t.Status {
		case golog.Skipped:
			fmt.Fprintf(w, "    skipped %s: %s\n", t.Name, t.Reason())
		case golog.Failed, golog.Unfinished:
			fmt.Fprintf(w, "    %s %s\n", t.Status, t.Name)
			printLines(w, t.Output)
		case golog.Passed:
			if verbose {
				fmt.Fprintf(w, "    passed  %s in %s\n", t.Name, t.Took)
			}
		}
	}
	if p.Exit != 0 {
		fmt.Fprintf(w, "    outside of tests:\n")
		printLines(w, p.Log.Other)
	}
}

func printLines(w io.Writer, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(w, "      | %s\n", line)
	}
}

func orUnknown(release string) string {
	if release == "" {
		return "release unknown"
	}
	return release
}

func verdict(ok bool) string {
	if ok {
		return "ok"
	}
	return "FAILED"
}
