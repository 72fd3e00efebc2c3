// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Programs of [Web.Program].
const (
	Ours      = "ebpf receiver"
	Reference = "reference"
	// Floor is the kernel's own unwinding of its stack, alone.
	Floor = "floor"
)

// Print writes the report for a person.
func (r *Report) Print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "Host: Linux %s, %d CPUs; the rest of it used %.2f CPUs just before\n", r.Host.Kernel, r.Host.CPUs, r.Host.Others)
	fmt.Fprintf(w, "Collector: SHA-256 %s\n", r.Binary)
	for _, note := range r.Notes {
		fmt.Fprintf(w, "Note: %s\n", note)
	}
	r.printExact(w)
	if r.Busy != nil {
		r.Busy.print(w)
	}
	r.printWeb(w)
	r.printSwitches(w)
	r.printNetwork(w)
	r.printRequests(w)
	r.TLS.print(w)
	r.printWatched(w)
	r.printTriggers(w)
	fmt.Fprintf(w, "\nTargets\n")
	for _, t := range r.Targets {
		fmt.Fprintf(w, "  %s\t%s\t%s\tlimit %s\n", t.Verdict(), t.Name, t.Figure, t.Limit)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the report: %w", err)
	}
	return nil
}

func (r *Report) printExact(w io.Writer) {
	if len(r.Exact) == 0 {
		return
	}
	fmt.Fprintf(w, "\nSamples in exported profiles against CPU time, from each program's start to its end\n")
	fmt.Fprintf(w, "  program\telapsed\tCPU time\texpected\tgot\toff\n")
	for _, e := range r.Exact {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%.1f\t%d\t%+.2f %%\n", e.Program, e.Elapsed.Round(time.Millisecond), e.CPUTime.Round(time.Millisecond), e.Expected, e.Got, e.Off())
	}
}

func (b *Busy) print(w io.Writer) {
	row := func(name, format string, values ...any) {
		fmt.Fprintf(w, "  %s\t%s\n", name, fmt.Sprintf(format, values...))
	}
	fmt.Fprintf(w, "\nFixed load, a sample every %s on each CPU, nop exporter, %s after the start-up\n", b.Period, short(b.Elapsed))
	row("samples expected (busy CPU time less the Collector's own)", "%.0f", b.Expected)
	row("samples got", "%.0f (%+.2f %%)", b.Got, 100*(b.Got/b.Expected-1))
	row("samples lost, whole run", "%.0f %s", b.LostSum(), reasons(b.Lost))
	row("incomplete samples, whole run", "%.0f %s", sum(b.Incomplete), reasons(b.Incomplete))
	row("limit level (0: as configured)", "%.0f", b.Level)
	row("kernel time per sample", "%s (%d runs)", short(b.KernelPerSample()), b.Runs)
	row("the same by the kernel's record of the program", "%s (%d runs)", short(per(b.TimeByKernel, float64(b.RunsByKernel))), b.RunsByKernel)
	row("engine CPU, its own account", "start-up %s, steady %s, %s per sample; with start-up %s per sample", short(b.Engine.StartUp),
		short(b.Engine.Steady), short(b.EnginePerSample()), short(b.EngineWholeRunPerSample()))
	row("Collector CPU", "start-up %s, steady %s", short(b.Process.StartUp), short(b.Process.Steady))
	row("bare Collector CPU, same time", "start-up %s, steady %s", short(b.Bare.StartUp), short(b.Bare.Steady))
	row("difference", "start-up %s, steady %s, %s per sample; with start-up %s per sample", short(b.Process.StartUp-b.Bare.StartUp),
		short(b.Process.Steady-b.Bare.Steady), short(b.ProcessPerSample()), short(b.WholeRunPerSample()))
	row("highest RssAnon, RssFile, RSS", "%s, %s, %s (bare Collector: RssAnon %s)", mib(b.RSSAnon), mib(b.RSSFile), mib(b.RSS), mib(b.BareAnon))
	row("kernel maps", "%s in %d maps", mib(b.KernelMapBytes), b.KernelMaps)
	row("process start to first sample", "%s", starts(b.FirstSamples))
	row("the same by default, with network", "%s", starts(b.FirstSamplesByDefault))
}

// starts formats times: their median and each one.
func starts(times []time.Duration) string {
	var each []string
	for _, one := range times {
		each = append(each, short(one))
	}
	return fmt.Sprintf("%s (of %s)", short(median(times)), strings.Join(each, ", "))
}

func (r *Report) printWeb(w io.Writer) {
	if len(r.Web) == 0 {
		return
	}
	fmt.Fprintf(w, "\nnginx and wrk at full speed: kernel time per sample\n")
	fmt.Fprintf(w, "  program\tevery\tstacks\tmedian\tto reference\trounds\truns\tload's share\trequests/s\tengine per sample\tlost\n")
	for _, s := range r.Web {
		var rounds, runs, shares, rates []string
		lost := 0.0
		for _, round := range s.Rounds {
			rounds = append(rounds, short(round.PerRun))
			runs = append(runs, fmt.Sprint(round.Runs))
			shares = append(shares, fmt.Sprintf("%.0f %%", 100*round.Share))
			rates = append(rates, fmt.Sprintf("%.0f k", round.RequestRate/1000))
			lost += round.Lost
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f\n", s.Program, s.Period, stacksName(s), short(s.Median()), ratio(r.toReference(s)),
			strings.Join(rounds, " "), strings.Join(runs, " "), strings.Join(shares, " "), strings.Join(rates, " "), short(s.EngineMedian()), lost)
	}
}

func ratio(r float64) string {
	if r == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", r)
}

func reasons(counts map[string]float64) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if counts[key] != 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f", key, counts[key]))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func stacksName(s Web) string {
	switch {
	case s.Program == Floor:
		return "kernel only"
	case s.KernelStacks:
		return "kernel+user"
	}
	return "user only"
}

// short prints a duration with about three digits.
func short(d time.Duration) string {
	switch size := d.Abs(); {
	case size == 0:
		return "0"
	case size < 100*time.Microsecond:
		return fmt.Sprintf("%.2f µs", float64(d)/1e3)
	case size < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}

func megabytes(bytes uint64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }

func mib(bytes uint64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
