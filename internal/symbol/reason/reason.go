// SPDX-License-Identifier: Apache-2.0

// Package reason has the reasons for which a frame has no name or a file was not read, as metrics count them.
package reason

import (
	"errors"
)

// Name is why a frame has no name, or the kind of an error.
type Name string

// Names of reasons. Each frame without a name is counted under exactly one of them.
const (
	// NameNoMapping: the address lies in no executable mapping of the process.
	NameNoMapping Name = "no_mapping"
	// NameAnonymous: executable memory without a file, as JIT compilers use.
	NameAnonymous Name = "anonymous"
	// NameNotInCodeMap: code that the process compiled at run time, which is not in its perf map or jitdump.
	NameNotInCodeMap Name = "not_in_code_map"
	// NameBadCodeMap: a perf map or jitdump, or a part of it, that is malformed.
	NameBadCodeMap Name = "bad_code_map"
	// NameNoSymbol: no symbol of the binary covers the address.
	NameNoSymbol Name = "no_symbol"
	// NameNoFile: the mapped file cannot be opened, or another file is at its path.
	NameNoFile Name = "no_file"
	// NameNoAnswer: the file's file system does not answer, such as of a server that hangs.
	NameNoAnswer Name = "no_answer"
	// NameNotPermitted: the user of the process may not read the file.
	NameNotPermitted Name = "not_permitted"
	// NameNotTrusted: the file is of another user than the process, or can be written by others.
	NameNotTrusted Name = "not_trusted"
	// NameProcessExited: the process had exited before its memory map or file could be read.
	NameProcessExited Name = "process_exited"
	// NameNotELF: the mapped file is not an ELF file of this machine's byte order.
	NameNotELF Name = "not_elf"
	// NameNotRegular: the mapping is of a device, a pipe or the like; those are never read.
	NameNotRegular Name = "not_regular"
	// NameBadELF: an ELF file that is truncated or contradicts itself.
	NameBadELF Name = "bad_elf"
	// NameOverBudget: it was exported before its name was found, since work on symbols is bounded.
	NameOverBudget Name = "over_budget"
	// NameTooLarge: the tables of the binary would exceed the memory bound.
	NameTooLarge Name = "too_large"
	// NameBadDebug: debug information that is damaged, too large or cannot be read. Frames lack lines, and names only where no
	// symbol has them.
	NameBadDebug Name = "bad_debug_info"
	// NameSpecial: [vsyscall], or a [vdso] that cannot be read.
	NameSpecial Name = "special"
	// NameKernelHidden: the kernel does not show its addresses to this process.
	NameKernelHidden Name = "kernel_hidden"
	// NameKernelUnknown: a kernel address that belongs to no symbol.
	NameKernelUnknown Name = "kernel_unknown"
)

// Cause is a reason as it is stored in every frame.
type Cause uint8

// Causes. Named is that of a frame that has a name, and Causes their number.
const (
	Named Cause = iota
	NoMapping
	Anonymous
	NoSymbol
	NoFile
	NoAnswer
	ProcessExited
	NotELF
	NotRegular
	BadELF
	TooLarge
	BadDebug
	Special
	KernelHidden
	KernelUnknown
	NotInCodeMap
	BadCodeMap
	NotPermitted
	NotTrusted
	OverBudget
	Causes
)

var names = [Causes]Name{
	"", NameNoMapping, NameAnonymous, NameNoSymbol, NameNoFile, NameNoAnswer, NameProcessExited, NameNotELF,
	NameNotRegular, NameBadELF, NameTooLarge, NameBadDebug, NameSpecial, NameKernelHidden, NameKernelUnknown,
	NameNotInCodeMap, NameBadCodeMap, NameNotPermitted, NameNotTrusted, NameOverBudget,
}

// Name is the reason that the cause is counted under, empty for a frame that has a name.
func (c Cause) Name() Name { return names[c] }

// New returns an error that is counted under a cause.
func New(why Cause, err error) *Error { return &Error{Cause: why, Err: err} }

// Error is an error that is counted by its reason.
type Error struct {
	Cause Cause
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// MayBeCompiled reports whether the process itself may list code at an address of that cause: it belongs to no ELF file. Some map the memory
// of their code from a file without content of its own.
func (c Cause) MayBeCompiled() bool {
	switch c {
	case Anonymous, NotELF, NotRegular, NoFile, NoMapping:
		return true
	}
	return false
}

// ErrNoAnswer is the cause when a file's file system does not answer.
var ErrNoAnswer = errors.New("its file system does not answer")

// ErrTooLarge is the cause where something would exceed the memory bound.
var ErrTooLarge = errors.New("exceeds the memory bound")
