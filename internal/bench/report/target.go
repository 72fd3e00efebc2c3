// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"time"
)

// The targets of on-CPU profiling at a period of 10 ms on the build machine.
const (
	maxKernelBoth  = 7000 * time.Nanosecond
	maxKernelUser  = 2500 * time.Nanosecond
	maxEngine      = 15 * time.Microsecond
	maxAnon        = 50 << 20
	maxMaps        = 16 << 20
	maxFirstSample = 700 * time.Millisecond
	// What the reference took on the host and the day on which the targets were set. Their ratios can be compared between
	// hosts, and on one that has slower neighbours for a while.
	referenceBoth = 7000 * time.Nanosecond
	referenceUser = 3000 * time.Nanosecond
	// maxOff is how far, in percent, the samples of a program may be from its CPU time.
	maxOff = 3.0
)

// Target is a promise and whether it is kept.
type Target struct {
	Name     string
	Limit    string
	Figure   string
	Measured bool
	Pass     bool
}

// Verdict is PASS, FAIL or "not measured".
func (t Target) Verdict() string {
	switch {
	case !t.Measured:
		return "not measured"
	case t.Pass:
		return "PASS"
	default:
		return "FAIL"
	}
}

// Judge compares the figures with the targets.
func (r *Report) Judge() {
	r.Targets = nil
	b := r.Busy
	measured := b != nil
	if !measured {
		b = &Busy{}
	}
	add := func(name, limit, figure string, measured, pass bool) {
		r.Targets = append(r.Targets, Target{Name: name, Limit: limit, Figure: figure, Measured: measured, Pass: pass})
	}
	add("lost samples", "0", fmt.Sprintf("%.0f", b.LostSum()), measured, b.LostSum() == 0)
	for _, e := range r.Exact {
		add("samples of "+e.Program+" against its CPU time", fmt.Sprintf("within %.0f %%", maxOff),
			fmt.Sprintf("%+.2f %%", e.Off()), true, e.Off() <= maxOff && e.Off() >= -maxOff)
	}
	r.judgeWeb(add, true, maxKernelBoth, referenceBoth)
	r.judgeWeb(add, false, maxKernelUser, referenceUser)
	duration(add, "engine CPU per sample (its own account, steady)", maxEngine, b.EnginePerSample(), measured)
	duration(add, "engine CPU per sample (its own account, with the start-up)", maxEngine, b.EngineWholeRunPerSample(), measured)
	duration(add, "engine CPU per sample (Collector less bare one, steady)", maxEngine, b.ProcessPerSample(), measured && b.Bare.Total() > 0)
	add("RssAnon, highest", mib(maxAnon), mib(b.RSSAnon), measured, b.RSSAnon <= maxAnon)
	add("kernel maps", mib(maxMaps), mib(b.KernelMapBytes), measured, b.KernelMapBytes <= maxMaps)
	r.judgeSwitches(add)
	r.judgeNetwork(add)
	r.judgeRequests(add)
	r.TLS.judge(add)
	r.judgeWatched(add)
	r.judgeTriggers(add)
	duration(add, "process start to first sample, median", maxFirstSample, b.FirstSample(), measured && b.FirstSample() > 0)
}

type addTarget func(name, limit, figure string, measured, pass bool)

func duration(add addTarget, name string, limit, value time.Duration, measured bool) {
	add(name, short(limit), short(value), measured, value <= limit)
}

// judgeWeb judges every period that was measured; the target does not name one.
func (r *Report) judgeWeb(add addTarget, kernelStacks bool, limit, reference time.Duration) {
	toReference := float64(limit) / float64(reference)
	found := false
	for _, w := range r.Web {
		if w.Program != Ours || w.KernelStacks != kernelStacks {
			continue
		}
		found = true
		duration(add, fmt.Sprintf("kernel time per sample, %s, nginx and wrk, every %s", stacksName(w), w.Period), limit, w.Median(), true)
		if to := r.toReference(w); to > 0 {
			add(fmt.Sprintf("the same to the reference's, %s, every %s", stacksName(w), w.Period), ratio(toReference), ratio(to), true, to <= toReference)
		}
	}
	if !found {
		duration(add, "kernel time per sample, "+stacksName(Web{Program: Ours, KernelStacks: kernelStacks})+", nginx and wrk", limit, 0, false)
	}
}

// Passed reports whether all targets were measured and are kept.
func (r *Report) Passed() bool {
	for _, t := range r.Targets {
		if !t.Measured || !t.Pass {
			return false
		}
	}
	return true
}
