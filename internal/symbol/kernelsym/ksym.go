// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"bytes"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
)

// Function is the function of an address of the kernel. Without a name it is unknown.
type Function struct {
	Name   string
	Module string // empty: of the kernel itself; bpfModule: of a BPF program
	Start  uint64
	Size   uint64 // bytes
}

// parseKernelFunction parses how the kernel prints an address by %pS: the name, the offset and the size in bytes, as in tcp_ack+0x1f/0x1700,
// and in a module a blank and [MODULE]; or the address alone, when it has no name (kernel/kallsyms.c, __sprint_symbol).
func parseKernelFunction(pc uint64, text []byte) Function {
	symbol, module, _ := bytes.Cut(text, []byte{' '})
	plus := bytes.LastIndex(symbol, []byte("+0x"))
	if plus <= 0 {
		return Function{}
	}
	// An alias for code that runs before the kernel is relocated, which the kernel prefers to the function's own name.
	name := bytes.TrimPrefix(symbol[:plus], []byte("__pi_"))
	first, second, _ := bytes.Cut(symbol[plus+3:], []byte("/0x"))
	offset, ok := proc.ParseHex(first)
	size, okSize := proc.ParseHex(second)
	if !ok || !okSize || offset > pc || offset >= size || isPadding(name) {
		return Function{}
	}
	return Function{
		Name:   string(name),
		Module: string(bytes.Trim(module, "[]")),
		Start:  pc - offset,
		Size:   size,
	}
}

// isBPF reports whether a function without a module is a BPF program, a trampoline, a dispatcher or the like. The first two have a number in
// their names (kernel/bpf/core.c, bpf_get_prog_name), which no function of the kernel has; the others are recognized by their address, if
// that of the text is known.
func isBPF(f Function, text Span) bool {
	if rest, ok := strings.CutPrefix(f.Name, "bpf_prog_"); ok {
		tag, _, _ := strings.Cut(rest, "_")
		_, hex := proc.ParseHex([]byte(tag))
		return hex && len(tag) == 16
	}
	if rest, ok := strings.CutPrefix(f.Name, "bpf_trampoline_"); ok {
		return rest != "" && rest[0] >= '0' && rest[0] <= '9'
	}
	elsewhere := text.End > 0 && !text.contains(f.Start)
	return elsewhere && (strings.HasPrefix(f.Name, "bpf_dispatcher_") || strings.HasPrefix(f.Name, "bpf__"))
}
