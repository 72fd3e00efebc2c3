// SPDX-License-Identifier: Apache-2.0

// Package observetest is a host for the tests of observations: it knows the
// processes that a test adds, and names frames by address alone.
package observetest

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// Host implements [observe.Host].
type Host struct {
	// Everybody puts every process in scope that is requested.
	Everybody bool
	// Foreign reports which processes Everybody leaves out; nil: none.
	Foreign func(pid uint32) bool
	// Subjects are those in scope, Asked all that were asked about, in order.
	Subjects map[observe.SubjectKey]*Subject
	Asked    []observe.SubjectKey
	// Unknown are the processes of which it is not known whether they are in scope.
	Unknown map[observe.SubjectKey]observe.Unknown
}

var _ observe.Host = (*Host)(nil)

// NewHost returns a host on which no process is in scope.
func NewHost() *Host { return &Host{Subjects: map[observe.SubjectKey]*Subject{}} }

// Add puts a process in scope that the kernel calls (pid, 1, exec).
func (h *Host) Add(pid, exec uint32) *Subject {
	s := &Subject{Named: &model.Process{ID: model.ProcessID{PID: pid}}}
	h.Subjects[observe.SubjectKey{PID: pid, StartBoottime: 1, ExecID: exec}] = s
	return s
}

// Subject implements [observe.Host].
func (h *Host) Subject(key observe.SubjectKey, comm string) (observe.Subject, observe.Unknown) {
	h.Asked = append(h.Asked, key)
	if s, ok := h.Subjects[key]; ok {
		return s, ""
	}
	if !h.Everybody || h.Foreign != nil && h.Foreign(key.PID) {
		return nil, h.Unknown[key]
	}
	s := &Subject{Named: &model.Process{ID: key.ID(), Comm: comm}}
	h.Subjects[key] = s
	return s, ""
}

// KernelFrames implements [observe.Host].
func (h *Host) KernelFrames(dst []*model.Frame, addresses []uint64) []*model.Frame {
	return appendFrames(dst, model.FrameKernel, addresses)
}

// Subject implements [observe.Subject].
type Subject struct {
	Named *model.Process
	Runs  model.Runtime
	Ended bool // before its mappings could be read
	// Astray is how many of the outermost addresses of its stacks lie in no code.
	Astray int
}

// Process implements [observe.Subject].
func (s *Subject) Process() *model.Process { return s.Named }

// Runtime implements [observe.Subject].
func (s *Subject) Runtime() model.Runtime { return s.Runs }

// Gone implements [observe.Subject].
func (s *Subject) Gone() bool { return s.Ended }

// UserFrames implements [observe.Subject].
func (s *Subject) UserFrames(dst []*model.Frame, addresses []uint64, _ uint64) []*model.Frame {
	return appendFrames(dst, model.FrameNative, addresses[:max(len(addresses)-s.Astray, 0)])
}

func appendFrames(dst []*model.Frame, kind model.FrameType, addresses []uint64) []*model.Frame {
	for _, a := range addresses {
		dst = append(dst, &model.Frame{Type: kind, Address: a})
	}
	return dst
}
