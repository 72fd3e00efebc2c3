// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"strings"
)

// kernelFunction is what an address of the kernel belongs to. Without a name
// it belongs to nothing that is known.
type kernelFunction struct {
	name   string
	module string // empty: of the kernel itself; bpfModule: of a BPF program
	start  uint64
	size   uint64 // bytes
}

// parseKernelFunction reads how the kernel prints an address by %pS: the name,
// the offset and the size in bytes, as in tcp_ack+0x1f/0x1700, and for what is
// in a module a blank and [MODULE]; or the address alone, when it has no name
// (kernel/kallsyms.c, __sprint_symbol).
func parseKernelFunction(pc uint64, text []byte) kernelFunction {
	symbol, module, _ := bytes.Cut(text, []byte{' '})
	plus := bytes.LastIndex(symbol, []byte("+0x"))
	if plus <= 0 {
		return kernelFunction{}
	}
	// An alias for code that runs before the kernel is in its place, which the
	// kernel prefers to the function's own name.
	name := bytes.TrimPrefix(symbol[:plus], []byte("__pi_"))
	first, second, _ := bytes.Cut(symbol[plus+3:], []byte("/0x"))
	offset, ok := parseHex(first)
	size, okSize := parseHex(second)
	if !ok || !okSize || offset > pc || offset >= size || isPadding(name) {
		return kernelFunction{}
	}
	return kernelFunction{
		name:   string(name),
		module: string(bytes.Trim(module, "[]")),
		start:  pc - offset,
		size:   size,
	}
}

// isBPF tells whether what has no module is a BPF program, a trampoline, a
// dispatcher or the like. The first two have a number in their names
// (kernel/bpf/core.c, bpf_get_prog_name), which no function of the kernel has;
// of the others it is told by their place, where that of the text is known.
func isBPF(f kernelFunction, text span) bool {
	if rest, ok := strings.CutPrefix(f.name, "bpf_prog_"); ok {
		tag, _, _ := strings.Cut(rest, "_")
		_, hex := parseHex([]byte(tag))
		return hex && len(tag) == 16
	}
	if rest, ok := strings.CutPrefix(f.name, "bpf_trampoline_"); ok {
		return rest != "" && rest[0] >= '0' && rest[0] <= '9'
	}
	elsewhere := text.end > 0 && !text.contains(f.start)
	return elsewhere && (strings.HasPrefix(f.name, "bpf_dispatcher_") || strings.HasPrefix(f.name, "bpf__"))
}
