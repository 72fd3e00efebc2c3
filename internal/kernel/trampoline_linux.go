// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// HasTrampolines reports whether programs can be attached to functions of the kernel (fentry and fexit): it attaches one to a rarely called
// function and detaches it again.
func (l *Loader) HasTrampolines() bool {
	const name = "probe"
	coll, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{name: {
		Name: name, Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: "inet_listen", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	}}}, ebpf.CollectionOptions{Cache: l.cache})
	if err != nil {
		return false
	}
	defer coll.Close()
	attached, err := link.AttachTracing(link.TracingOptions{Program: coll.Programs[name]})
	if err != nil {
		return false
	}
	return attached.Close() == nil
}
