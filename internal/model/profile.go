// SPDX-License-Identifier: Apache-2.0

package model

import (
	"sync/atomic"
	"time"
)

// FrameType is a value of the attribute profile.frame.type.
type FrameType string

// Frame types that the receiver distinguishes.
const (
	FrameNative FrameType = "native"
	FrameKernel FrameType = "kernel"
	FrameGo     FrameType = "go"
	FrameRust   FrameType = "rust"
	// Languages whose code a runtime compiles or interprets.
	FrameJVM     FrameType = "jvm"
	FrameV8      FrameType = "v8js"
	FrameDotnet  FrameType = "dotnet"
	FrameBEAM    FrameType = "beam"
	FrameCPython FrameType = "cpython"
	FrameRuby    FrameType = "ruby"
	FramePHP     FrameType = "php"
	FramePerl    FrameType = "perl"
)

// RuntimeNames says where the names of a language runtime's own functions come from.
// It is the value of the attribute ebpf.runtime.names.
type RuntimeNames string

// Sources of names. Frames of code that is interpreted are those of the
// interpreter in any case.
const (
	NamesNone    RuntimeNames = "none"
	NamesPerfMap RuntimeNames = "perf_map"
	NamesJitDump RuntimeNames = "jitdump"
)

// Runtime is a language runtime as a program has it. The zero Runtime is that of a
// program in which none is known.
type Runtime struct {
	// Language is the frame type of the functions that the runtime compiles or interprets.
	Language FrameType
	Names    RuntimeNames
}

// Function is a function of a program. Values are shared and compared by
// pointer.
type Function struct {
	// Name is the demangled name.
	Name string
	// SystemName is the name in the symbol table.
	SystemName string
	// Filename is the source file, or empty.
	Filename string
	// StartLine is the line of the definition, or 0.
	StartLine int64
}

// Line is one position in the source: a frame has several where functions were
// inlined, the innermost first.
type Line struct {
	Function *Function
	// Line is the line in the source, or 0.
	Line int64
}

// BuildID identifies a binary. Each field is lower-case hexadecimal, but for
// Go's, which is the text that the linker wrote; a field is empty when the
// binary has none.
type BuildID struct {
	// GNU is the note NT_GNU_BUILD_ID.
	GNU string
	// Go is the note of .note.go.buildid.
	Go string
	// HTLHash is the hash of head, tail and length of the file that
	// opentelemetry-ebpf-profiler defines, see process.executable.build_id.htlhash.
	HTLHash string
}

// Mapping is an executable segment of a binary, in the binary's own (file
// relative) addresses, so that all processes that run the binary share it.
// Values are shared and compared by pointer.
type Mapping struct {
	// Start and Limit are the first address of the segment and the one past its
	// end, as the ELF program header gives them.
	Start, Limit uint64
	// FileOffset is where the segment begins in the file.
	FileOffset uint64
	// Path is the file as the process sees it, or a name in brackets for what
	// has no file, such as [vdso].
	Path    string
	BuildID BuildID
}

// Frame is one entry of a stack. Values are immutable, shared and compared by
// pointer: the same address of the same binary is the same Frame for as long
// as the symbolizer remembers it.
type Frame struct {
	Type FrameType
	// Mapping is nil when the address belongs to no known binary.
	Mapping *Mapping
	// Address is relative to the file (an ELF virtual address). Of a caller it
	// is the return address less one, so that it lies within the call.
	Address uint64
	// Lines has the innermost function first; it is empty when the address has
	// no name.
	Lines []Line
	// Late is set where lines may come later: it has the same frame with them as soon as they are known. Read it by Settled.
	Late *atomic.Pointer[Frame]
}

// Settled returns the frame with all that is known of it by now.
func (f *Frame) Settled() *Frame {
	if f.Late == nil {
		return f
	}
	if settled := f.Late.Load(); settled != nil {
		return settled
	}
	return f
}

// StackError says why a stack is not whole. It is the value of the sample
// attribute ebpf.stack.error.
type StackError string

// Reasons why a stack is cut or missing.
const (
	StackWhole      StackError = ""
	StackCut        StackError = "max_depth"      // deeper than max_depth
	StackFault      StackError = "fault"          // the kernel could not read it
	StackNoMappings StackError = "process_exited" // gone before its mappings could be read
	// What ended the walk before the thread's first frame.
	StackNoTable    StackError = "no_unwind_table" // no table for the code, and no frame pointer
	StackUnreadable StackError = "unreadable"      // the stack's memory could not be read
	StackBadFrame   StackError = "bad_frame"       // a frame that cannot be where it was found
	StackNoRegister StackError = "no_register"     // the rule needs a register that is not known there
)

// BlockReason says why a thread has waited. It is the value of the sample
// attribute ebpf.block.reason.
type BlockReason string

// Reasons of waits; docs/reference/telemetry.md describes each.
const (
	BlockLock      BlockReason = "lock"
	BlockDisk      BlockReason = "disk"
	BlockNetwork   BlockReason = "network"
	BlockSleep     BlockReason = "sleep"
	BlockPreempted BlockReason = "preempted"
	BlockPageFault BlockReason = "page_fault"
	BlockOther     BlockReason = "other"
	BlockShort     BlockReason = "short" // all waits below min_block, together
)

// Sample is a set of equal observations of one thread.
type Sample struct {
	ThreadID   uint32
	ThreadName string
	// Frames has the leaf first: kernel frames, then user frames.
	Frames []*Frame
	// Values has one entry for each of the profile's SampleTypes.
	Values []int64
	Error  StackError
	// BlockReason is set on samples of off_cpu.
	BlockReason BlockReason
}

// ValueType names what is counted and in which UCUM unit.
type ValueType struct {
	Type, Unit string
}

// Profile is what was seen of one process in one interval by one kind of
// observation.
type Profile struct {
	Process *Process
	// Runtime is what the process ran, and whether its functions could be named, when
	// the interval ended.
	Runtime Runtime
	// Kind is the observation, such as on_cpu.
	Kind        string
	SampleTypes []ValueType
	// PeriodType and Period are zero when the kind has no period.
	PeriodType ValueType
	Period     int64
	// Start and Duration are the interval that the samples fall in.
	Start    time.Time
	Duration time.Duration
	Samples  []Sample
	// TaskID is set when a task or a policy started the observation.
	TaskID string
}
