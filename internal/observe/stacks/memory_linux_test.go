// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import (
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

// given is an entry that a test writes as the kernel would.
type given struct {
	hash, start        uint64
	pid, tid           uint32
	count, execID, tag uint32
	values             [2]uint64
	comm               string
	user, kernel       []uint64
	userErr, kernelErr int16 // negative errno instead of a stack
}

// aligned returns zeroed memory of n bytes that begins at a multiple of 8, with
// room behind it for what Go adds to the structs.
func aligned(n int) []byte {
	words := make([]uint64, (n+7)/8+2)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))[:n]
}

// bytes is the entry in the layout of struct stack_entry.
func (g given) bytes() []byte {
	raw := aligned(EntryHeadBytes + 8*(len(g.user)+len(g.kernel)))
	head := (*bindings.OnCPUStackEntry)(unsafe.Pointer(unsafe.SliceData(raw)))
	head.Hash, head.StartBoottime, head.Pid, head.Tid = g.hash, g.start, g.pid, g.tid
	head.Count, head.ExecId, head.Tag, head.Values = g.count, g.execID, g.tag, g.values
	head.UserFrames, head.KernelFrames = int16(len(g.user)), int16(len(g.kernel))
	if g.userErr < 0 {
		head.UserFrames = g.userErr
	}
	if g.kernelErr < 0 {
		head.KernelFrames = g.kernelErr
	}
	for i := range min(len(g.comm), len(head.Comm)) {
		head.Comm[i] = int8(g.comm[i])
	}
	frames := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(raw[EntryHeadBytes:]))), len(g.user)+len(g.kernel))
	copy(frames, g.user)
	copy(frames[len(g.user):], g.kernel)
	return raw
}

// entry is what each makes of it.
func (g given) entry() Entry {
	e, _, err := entryAt(g.bytes())
	if err != nil {
		panic(err)
	}
	return e
}

// tableOf is a table whose arena is as long as given and has these bytes in use.
func tableOf(arena int, used ...[]byte) *table {
	t := &table{memory: aligned(tableHeadBytes + arena)}
	at := tableHeadBytes
	for _, raw := range used {
		at += copy(t.memory[at:], raw)
	}
	t.head().Used = uint32(at - tableHeadBytes)
	return t
}
