// SPDX-License-Identifier: Apache-2.0

package symbol

// Reason says why a frame has no name, or of what sort an error is.
type Reason string

// Reasons. Each frame without a name is counted under exactly one of them.
const (
	// ReasonNoMapping: the address lies in no executable mapping of the process.
	ReasonNoMapping Reason = "no_mapping"
	// ReasonAnonymous: executable memory without a file, as JIT compilers use.
	ReasonAnonymous Reason = "anonymous"
	// ReasonNotInCodeMap: code that the process made while it runs, of which its perf map or jitdump does not tell.
	ReasonNotInCodeMap Reason = "not_in_code_map"
	// ReasonBadCodeMap: a perf map or jitdump, or a part of it, that is not what it should be.
	ReasonBadCodeMap Reason = "bad_code_map"
	// ReasonNoSymbol: no symbol of the binary covers the address.
	ReasonNoSymbol Reason = "no_symbol"
	// ReasonNoFile: the mapped file cannot be opened, or what is there now is another one.
	ReasonNoFile Reason = "no_file"
	// ReasonNoAnswer: the file's file system does not answer, such as of a server that hangs.
	ReasonNoAnswer Reason = "no_answer"
	// ReasonProcessExited: the process was gone before its memory map or file could be read.
	ReasonProcessExited Reason = "process_exited"
	// ReasonNotELF: the mapped file is not an ELF file of this machine's byte order.
	ReasonNotELF Reason = "not_elf"
	// ReasonNotRegular: the mapping is of a device, a pipe or the like; those are never read.
	ReasonNotRegular Reason = "not_regular"
	// ReasonBadELF: an ELF file that is truncated or contradicts itself.
	ReasonBadELF Reason = "bad_elf"
	// ReasonTooLarge: the tables of the binary would exceed the memory bound.
	ReasonTooLarge Reason = "too_large"
	// ReasonBadDebug: debug information that is damaged, too large or cannot be read. Frames lack lines, and names only where no
	// symbol has them.
	ReasonBadDebug Reason = "bad_debug_info"
	// ReasonSpecial: [vsyscall], or a [vdso] that cannot be read.
	ReasonSpecial Reason = "special"
	// ReasonKernelHidden: the kernel does not show its addresses to this process.
	ReasonKernelHidden Reason = "kernel_hidden"
	// ReasonKernelUnknown: a kernel address that belongs to no symbol.
	ReasonKernelUnknown Reason = "kernel_unknown"
)

// cause is a Reason as it is stored in every frame.
type cause uint8

const (
	named cause = iota
	noMapping
	anonymous
	noSymbol
	noFile
	noAnswer
	processExited
	notELF
	notRegular
	badELF
	tooLarge
	badDebug
	special
	kernelHidden
	kernelUnknown
	notInCodeMap
	badCodeMap
	numCauses
)

var reasons = [numCauses]Reason{
	"", ReasonNoMapping, ReasonAnonymous, ReasonNoSymbol, ReasonNoFile, ReasonNoAnswer, ReasonProcessExited, ReasonNotELF,
	ReasonNotRegular, ReasonBadELF, ReasonTooLarge, ReasonBadDebug, ReasonSpecial, ReasonKernelHidden, ReasonKernelUnknown,
	ReasonNotInCodeMap, ReasonBadCodeMap,
}

// reasonError is an error of which the sort is counted.
type reasonError struct {
	cause cause
	err   error
}

func (e *reasonError) Error() string { return e.err.Error() }
func (e *reasonError) Unwrap() error { return e.err }
