// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"path"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// What [FoldedFrame.Label] says of a function without a name.
const (
	LabelStripped  = "[stripped]"   // in a file that has no symbol for it
	LabelJIT       = "[jit]"        // in memory that belongs to no file, where compilers at run time put code
	LabelNotMapped = "[not mapped]" // in a process that ended before its mappings were read
	LabelUnnamed   = "[unnamed]"    // in the kernel or what it maps, or without a function name from another exporter
)

// Label is the function, or in brackets why it has no name; why is
// [FoldedSample.StackError] of its sample.
func (f FoldedFrame) Label(why model.StackError) string {
	switch {
	case f.Function != "":
		return f.Function
	case f.Type == string(model.FrameKernel), f.Type == "", strings.HasPrefix(f.Mapping, "["):
		return LabelUnnamed
	case f.Mapping != "":
		return LabelStripped
	case why == model.StackNoMappings:
		return LabelNotMapped
	}
	return LabelJIT
}

// Binary is the last element of the mapping's path, kernel for kernel code, or ?.
func (f FoldedFrame) Binary() string {
	switch {
	case f.Mapping != "":
		return path.Base(f.Mapping)
	case f.Type == string(model.FrameKernel):
		return "kernel"
	}
	return "?"
}

// StackError says why the stack is not whole.
func (s FoldedSample) StackError() model.StackError {
	why, ok := s.Attributes.Get(KeyStackError)
	if !ok {
		return model.StackWhole
	}
	return model.StackError(why.AsString())
}
