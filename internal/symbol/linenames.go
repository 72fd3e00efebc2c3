// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

// maxReadable bounds the names whose readable form is cached.
const maxReadable = 4096

// functionAt returns the function, not inlined, that contains an address, nil when that is not known.
func functionAt(data *debuginfo.Data, addr uint64) *debuginfo.Function {
	lines, err := data.Lookup(addr, nil)
	if err != nil || len(lines) == 0 {
		return nil
	}
	return lines[len(lines)-1].Function
}

// alias returns the function of an address by its public name. A symbol at the beginning of the same function is the public name, if the
// compiler wrote the name of an alias that only the library itself uses, as __GI_read. Parts and variants that the compiler made of a
// function, as read.cold, are that function.
func alias(f *debuginfo.Function, symbol string, atSymbol func() *debuginfo.Function) *debuginfo.Function {
	if symbol == "" {
		return f
	}
	if f == nil { // assembler code has lines and no function
		return &debuginfo.Function{Linkage: symbol}
	}
	own := f.Linkage
	if own == "" {
		own = f.Name
	}
	plain, _, _ := strings.Cut(symbol, "@")
	if own == plain || strings.HasPrefix(plain, own+".") {
		return f
	}
	if there := atSymbol(); there == nil || *there != *f {
		return f
	}
	return &debuginfo.Function{Name: f.Name, Linkage: symbol, File: f.File, Line: f.Line}
}

// named gives lines the names of their functions.
func (m *lineTables) named(lines []debuginfo.Line) []namedLine {
	if len(lines) == 0 {
		return nil
	}
	out := make([]namedLine, len(lines))
	for i, l := range lines {
		out[i] = namedLine{file: l.File, line: int64(l.Line)}
		if l.Function == nil {
			continue
		}
		system := l.Function.Linkage
		if system == "" {
			system = l.Function.Name
		}
		out[i].system, out[i].name = system, m.demangled(system)
		if l.Function.File == l.File {
			out[i].start = int64(l.Function.Line)
		}
	}
	return out
}

// demangled returns the readable form of a name.
func (m *lineTables) demangled(system string) string {
	name, ok := m.readable[system]
	if !ok {
		if len(m.readable) == maxReadable {
			clear(m.readable)
		}
		name, _ = elfsym.Demangled(system)
		m.readable[system] = name
	}
	return name
}
