// SPDX-License-Identifier: Apache-2.0

package flamegraph

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// Kinds of boxes; assets/format.js gives each a colour.
const (
	kindService = "service"
	kindThread  = "thread"
	kindNote    = "note" // what is said about stacks rather than seen in them
	kindKernel  = "kernel"
	kindInlined = "inlined"
	kindNative  = "native"
	kindRuntime = "runtime" // code of a runtime's own: interpreted, or compiled while the program runs
)

// maxText bounds the bytes of one name, path or file.
const maxText = 512

// maxDepth bounds the boxes above each other.
const maxDepth = 1024

// label is what a box says; boxes of the same label below the same parent are
// one.
type label struct{ kind, name, binary, file string }

func (l label) compare(m label) int {
	return cmp.Or(cmp.Compare(l.name, m.name), cmp.Compare(l.kind, m.kind), cmp.Compare(l.binary, m.binary), cmp.Compare(l.file, m.file))
}

// size is that of the texts, in bytes.
func (l label) size() int { return len(l.kind) + len(l.name) + len(l.binary) + len(l.file) }

// step is a box on the way to the end of a stack.
type step struct {
	label
	line int64
}

// other is the box of what is not drawn on its own.
var other = label{kind: kindNote, name: "(other)"}

// path is the way to the end of a sample's stack: service, thread, frames.
func path(s pdata.FoldedSample) []step {
	steps := make([]step, 0, len(s.Stack)+3)
	steps = append(steps,
		step{label: label{kind: kindService, name: text(attribute(s, pdata.KeyServiceName, "[no service]"))}},
		step{label: label{kind: kindThread, name: text(attribute(s, pdata.KeyThreadName, "[no thread name]"))}})
	why := s.StackError()
	switch {
	case len(s.Stack) == 0:
		steps = append(steps, step{label: label{kind: kindNote, name: text("[no stack" + because(why) + "]")}})
	case why != model.StackWhole:
		steps = append(steps, step{label: label{kind: kindNote, name: text("[stack not whole" + because(why) + "]")}})
	}
	for _, f := range s.Stack[:min(len(s.Stack), maxDepth)] {
		l := label{kind: frameKind(f), name: text(f.Label(why)), binary: text(f.Mapping), file: text(f.Filename)}
		steps = append(steps, step{l, f.Line})
	}
	if len(s.Stack) > maxDepth {
		steps = append(steps, step{label: other})
	}
	return steps
}

func because(why model.StackError) string {
	if why == model.StackWhole {
		return ""
	}
	return ": " + string(why)
}

// attribute is a text of the sample or its resource, or none.
func attribute(s pdata.FoldedSample, key, none string) string {
	if v, ok := s.Attributes.Get(key); ok && v.AsString() != "" {
		return v.AsString()
	}
	if v, ok := s.Resource.Get(key); ok && v.AsString() != "" {
		return v.AsString()
	}
	return none
}

// frameKind sorts frames by profile.frame.type.
func frameKind(f pdata.FoldedFrame) string {
	switch model.FrameType(f.Type) {
	case model.FrameKernel:
		return kindKernel
	case model.FrameNative, model.FrameGo, model.FrameRust, "":
		if f.Inlined {
			return kindInlined
		}
		return kindNative
	}
	return kindRuntime
}

// text cuts s to maxText bytes.
func text(s string) string {
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end]) + "…"
}
