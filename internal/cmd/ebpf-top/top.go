// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/flamegraph"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

const (
	// maxRows bounds the functions of one list, maxProcesses the processes
	// that are distinguished; what comes after goes to one row, and is not counted as a
	// further process.
	maxRows      = 50_000
	maxProcesses = 100_000
)

const (
	noStack = "[no stack]"
	others  = "[other functions]"
)

// rowKey is what a row stands for: a function of a binary in all processes of
// one name.
type rowKey struct{ process, function, binary string }

// row is one function.
type row struct {
	rowKey
	// self and total are the samples at whose leaf, and anywhere in which, the
	// function was.
	self, total int64
	// pid is the process, when many is not set.
	pid  int64
	many bool
	// seen is the number of the last sample counted in total.
	seen uint64
}

// top adds up the on-CPU samples of one list.
type top struct {
	// since leaves out profiles that ended before.
	since time.Time
	// graph draws the same samples, and those of other kinds; nil: nothing does.
	graph *flamegraph.Graph

	rows      map[rowKey]*row
	processes map[int64]struct{}
	samples   int64
	unnamed   int64
	// busy is the CPU time that the samples stand for, in nanoseconds.
	busy float64
	spans
	number uint64
	// otherKinds is the number of samples that are not of CPU time.
	otherKinds int
	// bad is the number of lines that could not be read, badWhy the last reason;
	// oversized is the number of those too long to be read.
	bad, oversized int
	badWhy         error
}

func newTop(since time.Time) *top {
	return &top{since: since, rows: map[rowKey]*row{}, processes: map[int64]struct{}{}}
}

// add counts one line of the file.
func (t *top) add(line []byte) {
	if err := pdata.FoldJSON(line, t.sample); err != nil {
		t.bad++
		t.badWhy = err
	}
}

// isCPU reports whether the values of p count samples of CPU time.
func isCPU(p *pdata.FoldedProfile) bool {
	return p.Type == model.ValueType{Type: "samples", Unit: "count"} &&
		p.PeriodType == model.ValueType{Type: "cpu", Unit: "nanoseconds"}
}

func (t *top) sample(s pdata.FoldedSample) error {
	old := s.Profile.Start.Add(s.Profile.Duration).Before(t.since)
	if t.graph != nil && !old {
		t.graph.Add(s)
	}
	if !isCPU(s.Profile) {
		t.otherKinds++
		return nil
	}
	if old {
		return nil
	}
	t.number++
	t.samples += s.Value
	t.busy += float64(s.Value) * float64(s.Profile.Period)
	t.spans.add(s.Profile.Start, s.Profile.Duration)

	var pid int64
	if v, ok := s.Resource.Get(pdata.KeyProcessPID); ok {
		pid = v.Int()
	}
	var process string
	if v, ok := s.Resource.Get(pdata.KeyProcessExecutableName); ok {
		process = v.Str()
	}
	if len(t.processes) < maxProcesses {
		t.processes[pid] = struct{}{}
	}
	t.stack(process, pid, s)
	return nil
}

// stack counts the frames of s.
func (t *top) stack(process string, pid int64, s pdata.FoldedSample) {
	if len(s.Stack) == 0 {
		t.unnamed += s.Value
		r := t.row(rowKey{process: process, function: noStack}, pid)
		r.self += s.Value
		r.total += s.Value
		return
	}
	why := s.StackError()
	for i, frame := range s.Stack {
		r := t.row(rowKey{process, frame.Label(why), frame.Binary()}, pid)
		if r.seen != t.number { // a recursive function is in the sample once
			r.seen = t.number
			r.total += s.Value
		}
		if i < len(s.Stack)-1 {
			continue
		}
		r.self += s.Value
		if frame.Function == "" {
			t.unnamed += s.Value
		}
	}
}

// row returns the row of key.
func (t *top) row(key rowKey, pid int64) *row {
	r, ok := t.rows[key]
	if !ok && len(t.rows) >= maxRows {
		key = rowKey{function: others}
		r, ok = t.rows[key]
	}
	if !ok {
		r = &row{rowKey: key, pid: pid}
		t.rows[key] = r
	}
	r.many = r.many || r.pid != pid
	return r
}

// hottest returns the n rows with the largest self or total, ties by the other
// and by name.
func (t *top) hottest(n int, byTotal bool) []*row {
	order := func(r *row) (first, second int64) {
		if byTotal {
			return r.total, r.self
		}
		return r.self, r.total
	}
	rows := make([]*row, 0, len(t.rows))
	for _, r := range t.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b *row) int {
		a1, a2 := order(a)
		b1, b2 := order(b)
		return cmp.Or(
			cmp.Compare(b1, a1), cmp.Compare(b2, a2), cmp.Compare(a.function, b.function),
			cmp.Compare(a.process, b.process), cmp.Compare(a.binary, b.binary),
		)
	})
	return rows[:min(n, len(rows))]
}

// cores is how many CPUs were busy on average.
func (t *top) cores() float64 {
	covered := t.spans.covered()
	if covered <= 0 {
		return 0
	}
	return t.busy / float64(covered)
}
