// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
)

// maxReadable bounds the names that are remembered in their readable form.
const maxReadable = 4096

// functionAt gives the function, not inlined, that an address belongs to, nil when that is not known.
func functionAt(data *debuginfo.Data, addr uint64) *debuginfo.Function {
	lines, err := data.Lookup(addr, nil)
	if err != nil || len(lines) == 0 {
		return nil
	}
	return lines[len(lines)-1].Function
}

// alias gives the function of an address by the name that it is known by. A symbol that begins with the same function is what others
// call it, where the compiler wrote the name of an alias that only the library itself uses, as __GI_read. Parts and variants that the
// compiler made of a function, as read.cold, are that function.
func alias(f *debuginfo.Function, symbol string, atSymbol func() *debuginfo.Function) *debuginfo.Function {
	if symbol == "" {
		return f
	}
	if f == nil { // code of an assembler has lines and no function
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

// demangled gives the readable form of a name.
func (m *lineTables) demangled(system string) string {
	name, ok := m.readable[system]
	if !ok {
		if len(m.readable) == maxReadable {
			clear(m.readable)
		}
		name, _ = demangled(system)
		m.readable[system] = name
	}
	return name
}
