// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// maxEnds bounds the different ends of stacks that are distinguished; the rest is one.
const maxEnds = 4096

// Judge adds up samples of one program.
type Judge struct {
	// PerfMap reports whether a process has a perf map, so that its JIT frames have names to be found. nil: none has.
	PerfMap func(pid int64) bool

	images map[string]*image
	first  time.Time // start of the first interval
	result Result
}

// New returns a judge without samples. The caller closes it.
func New() *Judge {
	return &Judge{
		images: map[string]*image{},
		result: Result{Entries: map[Entry]int64{}, Errors: map[string]int64{}, Ends: map[End]int64{}, Mappings: map[string]Frames{}},
	}
}

// Close closes the binaries that were read.
func (j *Judge) Close() error {
	var errs []error
	for _, m := range j.images {
		if m != nil {
			errs = append(errs, m.close())
		}
	}
	return errors.Join(errs...)
}

// Result is what was added up so far.
func (j *Judge) Result() Result { return j.result }

// image returns the binary at a path, nil where there is none that can be read. Paths are those of the host: programs
// in other mount namespaces are not judged.
func (j *Judge) image(path string) *image {
	m, seen := j.images[path]
	if seen {
		return m
	}
	if strings.HasPrefix(path, "/") {
		var err error
		if m, err = openImage(path); err != nil {
			m = nil
			j.result.Notes = append(j.result.Notes, err.Error())
		}
	}
	j.images[path] = m
	return m
}

// Add judges one sample, which stands for its value of equal ones.
func (j *Judge) Add(s pdata.FoldedSample) {
	r, n := &j.result, s.Value
	if exiting(s.Stack) {
		r.Exiting += n
		return
	}
	r.Samples += n
	said := s.StackError()
	if said != model.StackWhole {
		r.Errors[string(said)] += n
	}
	entry := NoEntry
	if len(s.Stack) > 0 {
		entry = j.entry(s.Stack)
	}
	later := j.later(s.Profile)
	if later {
		r.Later += n
	}
	if entry != NoEntry {
		r.Entries[entry] += n
		r.Whole += n
		if later {
			r.LaterWhole += n
		}
	} else {
		r.addEnd(j.end(s, said), n)
	}
	if (entry != NoEntry) != (said == model.StackWhole) {
		r.Contradicted += n
	}
	pid, _ := s.Resource.Get(pdata.KeyProcessPID)
	j.frames(s.Stack, n, pid.Int())
}

// later reports whether a profile is not of the first interval. Profiles come in the order of their intervals.
func (j *Judge) later(p *pdata.FoldedProfile) bool {
	if j.first.IsZero() {
		j.first = p.Start
	}
	return p.Start.After(j.first)
}

// exiting reports whether the kernel was ending the task: it takes the address space apart then, and with it the stack.
func exiting(stack []pdata.FoldedFrame) bool {
	return slices.ContainsFunc(stack, func(f pdata.FoldedFrame) bool {
		return f.Type == string(model.FrameKernel) && f.Function == "do_exit"
	})
}

// end describes where a stack ends that does not reach an entry.
func (j *Judge) end(s pdata.FoldedSample, said model.StackError) End {
	end := End{Error: string(said)}
	if len(s.Stack) == 0 {
		end.Mapping = "no frames"
		return end
	}
	root := s.Stack[0]
	end.Mapping, end.Address, end.Function = root.Mapping, root.Address, root.Function
	if root.Type == string(model.FrameKernel) {
		end.Mapping, end.Address = "kernel", 0
	}
	if root.Mapping == "" && root.Type != string(model.FrameKernel) {
		end.Mapping, end.Address = "no file", 0 // addresses of generated code differ from run to run
	}
	return end
}

// frames counts the frames of one stack, root first.
func (j *Judge) frames(stack []pdata.FoldedFrame, n, pid int64) {
	for i, f := range stack {
		count := Frames{All: n}
		if f.Function == "" {
			count.Unnamed = n
		}
		if j.hasSymbols(f, pid) {
			count.WithSymbols = n
			count.UnnamedWithSymbols = count.Unnamed
		}
		j.result.Frames.add(count)
		mapping := j.result.Mappings[place(f)]
		mapping.add(count)
		j.result.Mappings[place(f)] = mapping
		if callee := calleeOf(stack, i); callee > 0 {
			j.caller(f, stack[callee], n)
		}
	}
}

// calleeOf is the frame that a frame of user space has called; 0: it is the innermost, or an inlined function. The functions
// inlined into a frame follow it and are no calls.
func calleeOf(stack []pdata.FoldedFrame, i int) int {
	kernel := string(model.FrameKernel)
	if stack[i].Inlined || stack[i].Type == kernel {
		return 0
	}
	for next := i + 1; next < len(stack) && stack[next].Type != kernel; next++ {
		if !stack[next].Inlined {
			return next
		}
	}
	return 0
}

// caller compares a caller's address with the code there. Functions that start threads and return from signals have no caller.
func (j *Judge) caller(f, callee pdata.FoldedFrame, n int64) {
	m := j.image(f.Mapping)
	if m == nil || m.goEntry(f.Address) || m.returnsFromSignal(f.Address) {
		return
	}
	if inner := j.image(callee.Mapping); inner != nil && inner.returnsFromSignal(callee.Address) {
		return // what a signal has interrupted has called nothing
	}
	follows, known := m.returns(f.Address)
	if !known {
		return
	}
	j.result.Callers += n
	if !follows {
		j.result.FalseCallers += n
		j.result.addFalse(End{Mapping: f.Mapping, Address: f.Address, Function: f.Function}, n)
	}
}

// place is the key by which frames are summed.
func place(f pdata.FoldedFrame) string {
	switch {
	case f.Mapping != "":
		return f.Mapping
	case f.Type == string(model.FrameKernel):
		return "kernel"
	}
	return "no file"
}

// hasSymbols reports whether this host has a name for the frame: see docs/reports/accuracy.md for what counts.
func (j *Judge) hasSymbols(f pdata.FoldedFrame, pid int64) bool {
	switch {
	case f.Type == string(model.FrameKernel):
		return true
	case f.Mapping == "":
		return j.PerfMap != nil && j.PerfMap(pid)
	}
	m := j.image(f.Mapping)
	return m != nil && (m.full || m.covered(f.Address))
}

// String is for people.
func (e End) String() string {
	text := e.Mapping
	if e.Address != 0 {
		text = fmt.Sprintf("%s!%#x", e.Mapping, e.Address)
	}
	if e.Function != "" {
		text += " " + e.Function
	}
	if e.Error != "" {
		text += " [" + e.Error + "]"
	}
	return text
}
