// SPDX-License-Identifier: Apache-2.0

// Package profilefile writes profiles in the formats of other tools: pprof, and folded stacks as flamegraph.pl and
// Speedscope read them.
package profilefile

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// maxStacks bounds the memory: samples of further stacks are counted in [Builder.Excess].
const maxStacks = 500_000

// Builder adds up equal stacks of one sample type. It is not safe for concurrent use.
type Builder struct {
	kind     string
	of       model.ValueType
	cpu      bool
	stacks   map[string]*stack
	interned map[frame]int
	frames   []frame
	// Samples is the sum of the values, Excess that of the stacks beyond the bound, Other how many samples are of another
	// type.
	Samples, Excess, Other int64
}

// frame is a function at a line.
type frame struct {
	function, file, binary string
	line                   int64
	kernel                 bool
}

// process is what a sample is labelled with.
type process struct {
	name, service string
	pid           int64
}

// stack are the samples with equal frames, root first, of a process.
type stack struct {
	process process
	frames  []int
	value   int64
	// time is the CPU time in nanoseconds where the values are samples of it.
	time int64
}

// NewBuilder returns an empty builder of samples whose type has this name, such as samples or off_cpu.
func NewBuilder(sampleType string) *Builder {
	return &Builder{kind: sampleType, stacks: map[string]*stack{}, interned: map[frame]int{}}
}

// Stacks returns how many different stacks there are.
func (b *Builder) Stacks() int { return len(b.stacks) }

// Unit is what the values count, such as samples, or nanoseconds of off_cpu.
func (b *Builder) Unit() string {
	if b.of.Unit == "" || b.of.Unit == "count" {
		return b.kind
	}
	return b.of.Unit + " of " + b.kind
}

// Add counts a sample.
func (b *Builder) Add(s pdata.FoldedSample) error {
	if s.Profile.Type.Type != b.kind {
		b.Other++
		return nil
	}
	if s.Value <= 0 {
		return nil
	}
	if len(b.stacks) == 0 {
		b.of = s.Profile.Type
		b.cpu = b.of.Unit == "count" && s.Profile.PeriodType == model.ValueType{Type: "cpu", Unit: "nanoseconds"}
	}
	owner := processOf(s)
	frames := b.intern(s)
	var key strings.Builder
	for _, part := range []string{owner.name, owner.service, strconv.FormatInt(owner.pid, 10)} {
		key.WriteString(part)
		key.WriteByte(0)
	}
	for _, f := range frames {
		key.WriteString(strconv.Itoa(f))
		key.WriteByte(' ')
	}
	found := b.stacks[key.String()]
	if found == nil {
		if len(b.stacks) >= maxStacks {
			b.Excess += s.Value
			return nil
		}
		found = &stack{process: owner, frames: frames}
		b.stacks[key.String()] = found
	}
	b.Samples += s.Value
	found.value += s.Value
	if s.Profile.Period > 0 && s.Value < math.MaxInt64/s.Profile.Period {
		found.time += s.Value * s.Profile.Period
	}
	return nil
}

// processOf is the process of a sample's resource.
func processOf(s pdata.FoldedSample) process {
	var p process
	if v, ok := s.Resource.Get(pdata.KeyProcessExecutableName); ok {
		p.name = v.AsString()
	}
	if v, ok := s.Resource.Get(pdata.KeyServiceName); ok {
		p.service = v.AsString()
	}
	if v, ok := s.Resource.Get(pdata.KeyProcessPID); ok {
		p.pid = v.Int()
	}
	return p
}

// intern returns the numbers of the sample's frames, root first.
func (b *Builder) intern(s pdata.FoldedSample) []int {
	why := s.StackError()
	out := make([]int, 0, len(s.Stack))
	for _, in := range s.Stack {
		f := frame{function: in.Label(why), file: in.Filename, binary: in.Mapping, line: in.Line, kernel: in.Type == string(model.FrameKernel)}
		n, known := b.interned[f]
		if !known {
			n = len(b.frames)
			b.interned[f] = n
			b.frames = append(b.frames, f)
		}
		out = append(out, n)
	}
	return out
}

// sorted are the stacks, the largest first, in an order that does not change from run to run.
func (b *Builder) sorted() []*stack {
	out := make([]*stack, 0, len(b.stacks))
	for _, s := range b.stacks {
		out = append(out, s)
	}
	slices.SortFunc(out, func(x, y *stack) int {
		return cmp.Or(cmp.Compare(y.value, x.value), cmp.Compare(x.process.pid, y.process.pid), cmp.Compare(x.process.name, y.process.name), slices.Compare(x.frames, y.frames))
	})
	return out
}
