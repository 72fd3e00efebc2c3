// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// Entry is one decoded struct stack_entry. Its slices are the table's memory:
// they hold until the table is cleared. The struct is the same in all objects.
type Entry struct {
	*bindings.OnCPUStackEntry
	User, Kernel []uint64
}

func entryAt(raw []byte) (Entry, int, error) {
	if len(raw) < EntryHeadBytes {
		return Entry{}, 0, fmt.Errorf("%d bytes left, an entry has %d", len(raw), EntryHeadBytes)
	}
	head := (*bindings.OnCPUStackEntry)(unsafe.Pointer(unsafe.SliceData(raw)))
	user, kernel := max(int(head.UserFrames), 0), max(int(head.KernelFrames), 0)
	size := EntryHeadBytes + 8*(user+kernel)
	if user > MaxDepth+1 || kernel > helperFrames || size > len(raw) {
		return Entry{}, 0, fmt.Errorf("an entry of %d and %d frames does not fit into %d bytes", user, kernel, len(raw))
	}
	frames := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(raw[EntryHeadBytes:]))), user+kernel)
	return Entry{OnCPUStackEntry: head, User: frames[:user:user], Kernel: frames[user:]}, size, nil
}

// subject is which program of which process the entry is about.
func (e *Entry) subject() observe.SubjectKey {
	return observe.SubjectKey{PID: e.Pid, StartBoottime: e.StartBoottime, ExecID: e.ExecId}
}

// comm is what the kernel calls the thread.
func (e *Entry) comm() string {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&e.Comm[0])), len(e.Comm))
	if end := bytes.IndexByte(raw, 0); end >= 0 {
		raw = raw[:end]
	}
	return string(raw)
}

// stackEnds are the reasons of enum unwind_end.
var stackEnds = [...]model.StackError{
	bindings.OnCPUUnwindEndUNWIND_END_ROOT:       model.StackWhole,
	bindings.OnCPUUnwindEndUNWIND_END_CUT:        model.StackCut,
	bindings.OnCPUUnwindEndUNWIND_END_NO_TABLE:   model.StackNoTable,
	bindings.OnCPUUnwindEndUNWIND_END_UNREADABLE: model.StackUnreadable,
	bindings.OnCPUUnwindEndUNWIND_END_BAD_FRAME:  model.StackBadFrame,
	bindings.OnCPUUnwindEndUNWIND_END_REGISTER:   model.StackNoRegister,
}

// end is why the user stack ends where it does.
func (e *Entry) end() bindings.OnCPUUnwindEnd {
	return min(bindings.OnCPUUnwindEnd(e.UserEnd), bindings.OnCPUUnwindEndUNWIND_END_REGISTER)
}
