// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// HasTrampolines tells whether programs can be attached to functions of the kernel
// (fentry and fexit): it attaches one to a function that is called once in a while
// and takes it away again.
func HasTrampolines() bool {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry, AttachTo: "inet_listen", License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return false
	}
	defer program.Close()
	attached, err := link.AttachTracing(link.TracingOptions{Program: program})
	if err != nil {
		return false
	}
	return attached.Close() == nil
}
