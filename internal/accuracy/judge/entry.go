// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"debug/elf"
	"slices"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// Entry says in which first function of a thread a stack ends.
type Entry string

// Entries of threads.
const (
	NoEntry Entry = ""
	// ProgramEntry is the code at the entry point of the ELF header, _start: of the program or of the dynamic loader.
	ProgramEntry Entry = "program"
	// ThreadEntry is the function in which a new thread leaves clone(2) or clone3(2).
	ThreadEntry Entry = "thread"
	// GoEntry is a function at which Go's own tracebacks end.
	GoEntry Entry = "go"
	// KernelEntry is a task that has not been in user mode yet, or never is.
	KernelEntry Entry = "kernel"
)

const (
	// startSize is more than _start has: 38 bytes on amd64, 80 on arm64.
	startSize = 96
	// cloneSize is how far a thread's first call is from the instructions that make and end the thread.
	cloneSize = 96
)

// goEntries are functions at which Go's tracebacks end: assembly marked TOPFRAME, and mcall, which has left the
// goroutine's stack for the thread's own for good.
var goEntries = []string{
	"runtime.goexit", "runtime.mstart", "runtime.rt0_go", "runtime.mcall",
	"_rt0_amd64_linux", "_rt0_amd64", "_rt0_arm64_linux",
}

// kernelEntries are where the kernel starts a task.
var kernelEntries = []string{"ret_from_fork", "ret_from_fork_asm"}

// threadCode is machine code of a thread's first function: it is called right after a clone system call and ends the thread
// when it returns. glibc's clone and clone3 and musl's __clone have no symbol in a stripped library.
type threadCode struct {
	system []byte // the system call instruction, before the call
	exit   []byte // what sets the number of exit(2), after it
}

var threadCodes = map[elf.Machine]threadCode{
	elf.EM_X86_64:  {system: []byte{0x0f, 0x05}, exit: []byte{0x3c, 0, 0, 0}},                      // syscall; mov $60,%eax
	elf.EM_AARCH64: {system: []byte{0x01, 0x00, 0x00, 0xd4}, exit: []byte{0xa8, 0x0b, 0x80, 0xd2}}, // svc #0; mov x8,#93
}

// entry says which entry of a thread the root-most frame of a stack is, which has frames.
func (j *Judge) entry(stack []pdata.FoldedFrame) Entry {
	root := stack[0]
	if root.Type == string(model.FrameKernel) {
		if slices.Contains(kernelEntries, root.Function) {
			return KernelEntry
		}
		return NoEntry
	}
	m := j.image(root.Mapping)
	if m == nil {
		return NoEntry
	}
	if m.goEntry(root.Address) || m.goPreempted(stack) {
		return GoEntry
	}
	if root.Address >= m.entry && root.Address-m.entry < startSize && m.entry != 0 {
		return ProgramEntry
	}
	if m.startsThread(root.Address) {
		return ThreadEntry
	}
	return NoEntry
}

// goEntry reports whether an address is in a function at which Go's tracebacks end.
func (m *image) goEntry(address uint64) bool {
	return slices.Contains(goEntries, strings.TrimSuffix(m.goFunction(address), ".abi0"))
}

// goPreempted reports whether a stack is that of Go's scheduler, to which a goroutine was sent when it asked for a larger stack: morestack
// has left the goroutine's stack for good then, as mcall does. Where it is to go on with the goroutine it has its callers.
func (m *image) goPreempted(stack []pdata.FoldedFrame) bool {
	return m.goFunction(stack[0].Address) == "runtime.morestack" && slices.ContainsFunc(stack, func(f pdata.FoldedFrame) bool {
		return f.Mapping == stack[0].Mapping && m.goFunction(f.Address) == "runtime.goschedImpl"
	})
}

// startsThread reports whether an address is within the first call of a thread.
func (m *image) startsThread(address uint64) bool {
	code, known := threadCodes[m.machine]
	if !known || address < cloneSize {
		return false
	}
	return m.has(address-cloneSize, cloneSize, code.system) && m.has(address, 16, code.exit)
}
