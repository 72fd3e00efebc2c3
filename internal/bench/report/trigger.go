// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Trigger is how long it takes from the request of a task to what it asks for, of several
// tasks one after the other.
type Trigger struct {
	Kind string
	// Before is what the engine knew of the process.
	Before string
	// Started is until the programs were loaded and attached, FirstSample until the first
	// sample was taken; empty where the kind takes none by itself.
	Started, FirstSample []time.Duration
}

// What the engine knew before, in [Trigger.Before].
const (
	TriggerUnknown = "nothing"
	TriggerKnown   = "the process, sampled already"
)

// firedTarget is what [Report.Fired] is judged as.
const firedTarget = "from the end of the second that fulfils the rule to the first sample of the profile (probes' loading included), median"

// firedByRequestsTarget is what [Report.FiredByRequests] is judged as.
const firedByRequestsTarget = "a rule about requests: " + firedTarget

// maxTrigger is what may pass from the end of the second that fulfils a rule to the first
// sample of the profile.
const maxTrigger = 300 * time.Millisecond

func (r *Report) printTriggers(w io.Writer) {
	printFired(w, "process_cpu", r.Fired)
	printFired(w, "http_avg_response_time", r.FiredByRequests)
	if len(r.Triggers) == 0 {
		return
	}
	fmt.Fprintf(w, "\nA task is asked for while a program is busy: median and longest of %d\n", len(r.Triggers[0].Started))
	fmt.Fprintf(w, "  kind\tknown before\tloaded and attached\tfirst sample\n")
	for _, t := range r.Triggers {
		first := "-"
		if len(t.FirstSample) > 0 {
			first = spread(t.FirstSample)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", t.Kind, t.Before, spread(t.Started), first)
	}
}

func printFired(w io.Writer, monitor string, list []time.Duration) {
	if len(list) > 0 {
		fmt.Fprintf(w, "\nA policy of %s starts on_cpu: %s; median and longest of %d: %s\n", monitor, strings.TrimSuffix(firedTarget, ", median"), len(list), spread(list))
	}
}

// spread is the median and the longest.
func spread(list []time.Duration) string {
	var longest time.Duration
	for _, one := range list {
		longest = max(longest, one)
	}
	return short(median(list)) + ", " + short(longest)
}

func (r *Report) judgeTriggers(add addTarget) {
	duration(add, firedTarget, maxTrigger, median(r.Fired), len(r.Fired) > 0)
	duration(add, firedByRequestsTarget, maxTrigger, median(r.FiredByRequests), len(r.FiredByRequests) > 0)
	found := false
	for _, t := range r.Triggers {
		if len(t.FirstSample) > 0 {
			found = true
			duration(add, "request of a task to the first sample of its profile, known before: "+t.Before+", median", maxTrigger, median(t.FirstSample), true)
		}
	}
	if !found {
		duration(add, "request of a task to the first sample of its profile, median", maxTrigger, 0, false)
	}
}
