// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/flamegraph"
)

// pollEvery is the time between two looks at the file.
const pollEvery = 200 * time.Millisecond

// settle is how long a list waits for the rest of an interval that is written
// in several messages.
const settle = 2 * time.Second

// run prints lists until ctx ends, or one of them.
func run(ctx context.Context, opts options, out *screen, now func() time.Time) error {
	r := runner{opts: opts, out: out, follow: follower{path: opts.path}, top: newTop(time.Time{})}
	defer r.follow.close()
	if !opts.once {
		// What an earlier Collector left in the file is not news.
		r.top.since = now().Add(-2 * opts.interval)
	}
	r.top.graph = r.newGraph()
	r.due = now()
	ticker := time.NewTicker(min(pollEvery, opts.interval))
	defer ticker.Stop()
	for {
		done, err := r.step(now())
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// runner is the state between two looks at the file.
type runner struct {
	opts   options
	out    *screen
	follow follower
	top    *top
	// due is when the next list is to be printed, arrived when the first sample
	// for it was read.
	due, arrived time.Time
	// printed is set after the first list.
	printed bool
	// told is how much was said since about why there is none.
	told reason
}

// reason is why there is no list.
type reason int

const (
	reasonNone    reason = iota
	reasonNoData         // nothing was read
	reasonBadData        // what was read has no samples of CPU time
)

// step reads what is new and prints what is due. It reports whether it has
// printed all that was asked for.
func (r *runner) step(now time.Time) (bool, error) {
	before := r.top.samples
	news, err := r.follow.poll(r.top.add)
	if err != nil {
		return false, err
	}
	r.top.oversized += r.follow.takeOversized()
	if r.top.samples == 0 && r.opts.once {
		return false, r.refuseNothing(now)
	}
	if r.top.samples == 0 {
		return false, r.tellNothing(now)
	}
	if before == 0 {
		r.arrived = now
	}
	if now.Before(r.due) || (news || r.follow.pending()) && now.Before(later(r.due, r.arrived).Add(settle)) {
		return false, nil
	}
	footer, failed := r.draw()
	if err := r.out.list(r.top, r.opts.rows, r.opts.byTotal, footer); err != nil {
		return false, err
	}
	if r.opts.once && failed != nil {
		return false, failed
	}
	r.top = newTop(r.top.since)
	r.top.graph = r.newGraph()
	r.due = now.Add(r.opts.interval)
	r.printed, r.told = true, reasonNone
	return r.opts.once, nil
}

// newGraph returns an empty graph, or nil when none is asked for.
func (r *runner) newGraph() *flamegraph.Graph {
	if r.opts.graphs.Keep == 0 {
		return nil
	}
	return &flamegraph.Graph{}
}

// draw writes the flame graph of the list and returns the line that tells. A
// graph that cannot be written is no reason to end the lists.
func (r *runner) draw() (footer string, err error) {
	if r.top.graph == nil {
		return "", nil
	}
	if err := r.opts.graphs.Write(r.top.graph); err != nil {
		return "no flame graph: " + printable(err.Error()), err
	}
	return "flame graph: " + r.opts.graphs.Latest(), nil
}

// tellNothing says once why there is no list, and once more when what comes is
// of no use.
func (r *runner) tellNothing(now time.Time) error {
	why, text := reasonNoData, "no new profiles since then"
	if !r.printed {
		text = fmt.Sprintf("waiting for the first profile in %s …", r.opts.path)
	}
	if w := warnings(r.top); w != "" {
		why, text = reasonBadData, text+" ("+w+")"
	}
	if r.told >= why || r.printed && now.Before(r.due.Add(r.opts.interval)) {
		return nil
	}
	r.told = why
	return r.out.note(text)
}

// refuseNothing is the error of a list that is asked for once, when the file has
// nothing for it. A line that is being written is waited for.
func (r *runner) refuseNothing(now time.Time) error {
	if r.follow.pending() && now.Before(r.due.Add(settle)) {
		return nil
	}
	why := warnings(r.top)
	if why == "" {
		why = "the Collector has written no profile there; name the folder of its file exporter with -dir"
	}
	return fmt.Errorf("nothing to list in %s: %s", r.opts.path, why)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
