// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/flamegraph"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/follow"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/overview"
)

const (
	// pollEvery is the time between two polls of the files.
	pollEvery = 200 * time.Millisecond
	// settle is how long a list waits for the rest of an interval that is written
	// in several messages.
	settle = 2 * time.Second
	// window is the time that requests and connections are counted in.
	window = time.Minute
)

// display shows what was read: a terminal, or lines of text.
type display interface {
	// note shows why there is no list.
	note(text string) error
	// list shows a list that is due.
	list(d data) error
	// update shows what has come since, where it can be shown in place.
	update(d data) error
}

// run shows lists until ctx ends, or one of them.
func run(ctx context.Context, opts options, out display, now func() time.Time) error {
	r := newRunner(opts, out, now())
	defer r.close()
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

// runner is the state between two polls of the files.
type runner struct {
	opts                    options
	out                     display
	profiles, metrics, logs follow.File
	// top is what is being counted, shown what the last list has counted.
	top, shown *top
	overview   *overview.Overview
	// due is when the next list is to be shown, arrived when the first sample
	// for it was read.
	due, arrived time.Time
	footer       string
	// printed is set after the first list.
	printed bool
	// noted is how much was reported since about why there is none.
	noted reason
}

func newRunner(opts options, out display, now time.Time) *runner {
	r := &runner{
		opts: opts, out: out, due: now,
		profiles: follow.File{Path: opts.file(profilesFile)}, metrics: follow.File{Path: opts.file(metricsFile)}, logs: follow.File{Path: opts.file(logsFile)},
		top: newTop(time.Time{}), overview: overview.New(time.Time{}, 0),
	}
	if !opts.once {
		// What an earlier Collector left in the files is not news.
		r.top.since = now.Add(-2 * opts.interval)
		r.overview = overview.New(now.Add(-window), window)
	}
	r.top.graph = r.newGraph()
	return r
}

func (r *runner) close() {
	r.profiles.Close()
	r.metrics.Close()
	r.logs.Close()
}

// reason is why there is no list.
type reason int

const (
	reasonNone    reason = iota
	reasonNoData         // nothing was read
	reasonBadData        // what was read has no samples of CPU time
)

// step reads what is new and shows what is due. It reports whether it has
// shown all that was asked for.
func (r *runner) step(now time.Time) (bool, error) {
	before := r.top.samples
	more, err := r.poll()
	if err != nil {
		return false, err
	}
	news, err := r.profiles.Poll(r.top.add)
	if err != nil {
		return false, err
	}
	r.top.oversized += r.profiles.TakeOversized()
	if r.top.samples == 0 && r.opts.once {
		return false, r.refuseNothing(now)
	}
	if r.top.samples == 0 {
		return false, errors.Join(r.explainNothing(now), r.updateIf(more))
	}
	if before == 0 {
		r.arrived = now
	}
	if now.Before(r.due) || (news || r.profiles.Pending()) && now.Before(later(r.due, r.arrived).Add(settle)) {
		return false, r.updateIf(more)
	}
	return r.opts.once, r.show(now)
}

// poll reads metrics and logs. A message that cannot be read is counted with those of profiles.
func (r *runner) poll() (news bool, err error) {
	use := func(add func([]byte) error) func([]byte) {
		return func(line []byte) {
			if err := add(line); err != nil {
				r.top.bad++
				r.top.badWhy = err
			}
		}
	}
	metrics, err := r.metrics.Poll(use(r.overview.AddMetrics))
	if err != nil {
		return false, err
	}
	logs, err := r.logs.Poll(use(r.overview.AddLogs))
	r.top.oversized += r.metrics.TakeOversized() + r.logs.TakeOversized()
	return metrics || logs, err
}

// show shows the list that is due and begins the next one.
func (r *runner) show(now time.Time) error {
	footer, failed := r.draw()
	r.shown, r.footer = r.top, footer
	if err := r.out.list(r.data()); err != nil {
		return err
	}
	if r.opts.once && failed != nil {
		return failed
	}
	r.top = newTop(r.top.since)
	r.top.graph = r.newGraph()
	r.due = now.Add(r.opts.interval)
	r.printed, r.noted = true, reasonNone
	return nil
}

// data is what is to be shown now.
func (r *runner) data() data {
	footer := r.footer
	if n := r.overview.Excess; n > 0 {
		footer = strings.TrimSpace(fmt.Sprintf("left out: %s points of too many series  %s", grouped(int64(n)), footer))
	}
	return data{
		top: r.shown, footer: footer,
		requests: r.overview.Requests(), connections: r.overview.Connections(), triggers: r.overview.Triggers(), reduced: r.overview.Reduced(),
	}
}

// updateIf shows news of metrics and logs.
func (r *runner) updateIf(news bool) error {
	if !news {
		return nil
	}
	return r.out.update(r.data())
}

// newGraph returns an empty graph, or nil when none is asked for.
func (r *runner) newGraph() *flamegraph.Graph {
	if r.opts.graphs.Keep == 0 {
		return nil
	}
	return &flamegraph.Graph{}
}

// draw writes the flame graph of the list and returns the line that names it. A
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

// explainNothing reports once why there is no list, and once more when what
// comes is of no use.
func (r *runner) explainNothing(now time.Time) error {
	why, text := reasonNoData, "no new profiles since then"
	if !r.printed {
		text = fmt.Sprintf("waiting for the first profile in %s …", r.profiles.Path)
	}
	if w := warnings(r.top); w != "" {
		why, text = reasonBadData, text+" ("+w+")"
	}
	if r.noted >= why || r.printed && now.Before(r.due.Add(r.opts.interval)) {
		return nil
	}
	r.noted = why
	return r.out.note(text)
}

// refuseNothing is the error of a list that is asked for once, when the file has
// nothing for it. A line that is being written is waited for.
func (r *runner) refuseNothing(now time.Time) error {
	if r.profiles.Pending() && now.Before(r.due.Add(settle)) {
		return nil
	}
	why := warnings(r.top)
	if why == "" {
		why = "the Collector has written no profile there; name the folder of its file exporter with -dir"
	}
	return fmt.Errorf("nothing to list in %s: %s", r.profiles.Path, why)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
