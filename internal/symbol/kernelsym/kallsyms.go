// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

const (
	maxKernelSymbols = 1 << 21
	maxKernelNames   = 1 << 26 // bytes
	maxModules       = 1 << 13
	maxBPFProgram    = 64 << 10 // assumed maximum of the code that a symbol of [bpf] covers
	bpfModule        = "bpf"
)

var errHidden = errors.New("the kernel hides its addresses")

// kernelSymbol is the start of a function; it reaches up to the next one.
type kernelSymbol struct {
	addr uint64
	name uint32 // offset in names, where a zero byte ends it
	size uint32
}

// owner is the module of consecutive symbols.
type owner struct {
	first  int // symbol
	module int // index in modules; -1 is the kernel itself
}

// table holds the text symbols of the kernel, its modules and the BPF
// programs, as /proc/kallsyms shows them.
type table struct {
	symbols []kernelSymbol // sorted by address
	owners  []owner
	names   []byte
	modules []string
	// text is _text to _etext, init the code that is freed after boot.
	text, init Span
}

const kernelSymbolBytes = 16

func (t *table) bytes() int64 {
	return int64(cap(t.symbols))*kernelSymbolBytes + int64(cap(t.names)) + int64(len(t.modules))*64
}

// kallsymsParser reads lines of ADDRESS TYPE NAME and, outside of the kernel itself, a tab and [MODULE].
type kallsymsParser struct {
	table   *table
	byName  map[string]int
	owners  []int32 // of each symbol, index in modules or -1
	lines   int
	visible bool // any address was not zero
}

// parseKallsyms reads the kernel's symbols. If all addresses are zero, it returns errHidden.
func parseKallsyms(r io.Reader, symbols, names int) (*table, error) {
	p := kallsymsParser{table: &table{}, byName: make(map[string]int)}
	p.table.symbols = make([]kernelSymbol, 0, symbols)
	p.table.names = make([]byte, 0, names)
	p.owners = make([]int32, 0, symbols)
	if err := p.read(r); err != nil {
		return nil, err
	}
	if p.lines == 0 {
		return nil, errors.New("no symbols at all")
	}
	if !p.visible {
		return nil, errHidden
	}
	p.finish()
	return p.table, nil
}

func (p *kallsymsParser) read(r io.Reader) error {
	buf := make([]byte, 64<<10)
	filled := 0
	for {
		n, err := r.Read(buf[filled:])
		filled += n
		rest := buf[:filled]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			if err := p.line(rest[:i]); err != nil {
				return fmt.Errorf("line %d: %w", p.lines+1, err)
			}
			p.lines++
			rest = rest[i+1:]
		}
		filled = copy(buf, rest)
		switch {
		case errors.Is(err, io.EOF):
			if filled > 0 {
				return fmt.Errorf("line %d has no end: %w", p.lines+1, io.ErrUnexpectedEOF)
			}
			return nil
		case err != nil:
			return err
		case filled == len(buf):
			return fmt.Errorf("line %d has more than %d bytes", p.lines+1, len(buf))
		}
	}
}

func (p *kallsymsParser) line(b []byte) error {
	i := bytes.IndexByte(b, ' ')
	if i < 0 || len(b) < i+4 || b[i+2] != ' ' {
		return fmt.Errorf("parsing %q: want ADDRESS TYPE NAME", proc.Clip(b))
	}
	addr, ok := proc.ParseHex(b[:i])
	if !ok {
		return fmt.Errorf("parsing %q: address", proc.Clip(b))
	}
	if addr != 0 {
		p.visible = true
	}
	kind, name := b[i+1], b[i+3:]
	module := int32(-1)
	if tab := bytes.IndexByte(name, '\t'); tab >= 0 {
		m := bytes.Trim(name[tab+1:], "[]")
		name = name[:tab]
		var err error
		if module, err = p.module(m); err != nil {
			return err
		}
	} else if p.landmark(name, addr) {
		return nil
	}
	// Text only, and no padding before functions, where nothing runs.
	if kind != 't' && kind != 'T' && kind != 'w' && kind != 'W' || addr == 0 || isPadding(name) {
		return nil
	}
	return p.add(addr, name, module)
}

// isPadding reports whether a name is of the padding before a function, where nothing runs.
func isPadding(name []byte) bool { return bytes.HasPrefix(name, []byte("__pfx_")) }

func (p *kallsymsParser) add(addr uint64, name []byte, module int32) error {
	t := p.table
	if len(t.symbols) >= maxKernelSymbols || len(t.names)+len(name) >= maxKernelNames {
		return fmt.Errorf("more than %d symbols or %d bytes of names: %w", maxKernelSymbols, maxKernelNames, reason.ErrTooLarge)
	}
	t.symbols = append(t.symbols, kernelSymbol{addr: addr, name: uint32(len(t.names))})
	t.names = append(append(t.names, name...), 0)
	p.owners = append(p.owners, module)
	return nil
}

// landmark records the bounds of the kernel's text, which name no functions.
func (p *kallsymsParser) landmark(name []byte, addr uint64) bool {
	if len(name) < 5 || name[0] != '_' {
		return false
	}
	switch string(name) {
	case "_text":
		p.table.text.Start = addr
	case "_stext":
		if p.table.text.Start == 0 {
			p.table.text.Start = addr
		}
	case "_etext":
		p.table.text.End = addr
	case "_sinittext":
		p.table.init.Start = addr
	case "_einittext":
		p.table.init.End = addr
	default:
		return false
	}
	return true
}

func (p *kallsymsParser) module(name []byte) (int32, error) {
	if i, ok := p.byName[string(name)]; ok {
		return int32(i), nil
	}
	if len(p.table.modules) >= maxModules {
		return 0, fmt.Errorf("more than %d modules: %w", maxModules, reason.ErrTooLarge)
	}
	i := len(p.table.modules)
	p.table.modules = append(p.table.modules, string(name))
	p.byName[p.table.modules[i]] = i
	return int32(i), nil
}

// finish sorts, drops aliases and finds the modules of the symbols.
func (p *kallsymsParser) finish() {
	t := p.table
	for i := range t.symbols {
		t.symbols[i].size = uint32(p.owners[i] + 1) // travels along while sorting
	}
	slices.SortStableFunc(t.symbols, func(x, y kernelSymbol) int { return cmp.Compare(x.addr, y.addr) })
	kept := t.symbols[:0]
	for _, s := range t.symbols {
		if n := len(kept); n > 0 && kept[n-1].addr == s.addr {
			if elfsym.BetterName(t.nameAt(s.name), t.nameAt(kept[n-1].name)) {
				kept[n-1] = s
			}
			continue
		}
		kept = append(kept, s)
	}
	for i := range kept {
		module := int(kept[i].size) - 1
		if n := len(t.owners); n == 0 || t.owners[n-1].module != module {
			t.owners = append(t.owners, owner{first: i, module: module})
		}
	}
	t.symbols = kept
	for _, o := range t.owners {
		if o.module < 0 && t.text.Start == 0 {
			t.text.Start = kept[o.first].addr
		}
	}
	t.compact()
}

// compact drops the names of aliases and spare capacity.
func (t *table) compact() {
	symbols := make([]kernelSymbol, len(t.symbols))
	size := 0
	for _, s := range t.symbols {
		size += bytes.IndexByte(t.names[s.name:], 0) + 1
	}
	names := make([]byte, 0, size)
	for i, s := range t.symbols {
		end := int(s.name) + bytes.IndexByte(t.names[s.name:], 0) + 1
		symbols[i] = kernelSymbol{addr: s.addr, name: uint32(len(names))}
		names = append(names, t.names[s.name:end]...)
	}
	t.symbols, t.names = symbols, names
}

// settle sets how far each symbol reaches: to the next one, but not out of the kernel's text or of its module.
func (t *table) settle(modules map[string]Span) {
	for i := range t.symbols {
		s := &t.symbols[i]
		end := s.addr + 1<<20
		if i+1 < len(t.symbols) {
			end = min(end, t.symbols[i+1].addr)
		}
		module := t.ownerOf(i)
		switch {
		case module < 0 && t.text.contains(s.addr):
			end = min(end, t.text.End)
		case module < 0 && t.init.contains(s.addr):
			end = min(end, t.init.End)
		case module >= 0 && t.modules[module] == bpfModule:
			end = min(end, s.addr+maxBPFProgram)
		case module >= 0:
			if m, ok := modules[t.modules[module]]; ok && m.contains(s.addr) {
				end = min(end, m.End)
			}
		}
		s.size = uint32(end - s.addr)
	}
}

// ownerOf returns the module of the i-th symbol, -1 for the kernel itself.
func (t *table) ownerOf(i int) int {
	o := sort.Search(len(t.owners), func(o int) bool { return t.owners[o].first > i }) - 1
	return t.owners[o].module
}

// function returns the function that covers addr, if any.
func (t *table) function(addr uint64) Function {
	i := t.find(addr)
	if i < 0 {
		return Function{}
	}
	s := t.symbols[i]
	f := Function{Name: t.nameAt(s.name), Start: s.addr, Size: uint64(s.size)}
	if module := t.ownerOf(i); module >= 0 {
		f.Module = t.modules[module]
	}
	return f
}

// find returns the index of the symbol that covers addr, or -1.
func (t *table) find(addr uint64) int {
	i := sort.Search(len(t.symbols), func(i int) bool { return t.symbols[i].addr > addr }) - 1
	if i >= 0 && addr-t.symbols[i].addr < uint64(t.symbols[i].size) {
		return i
	}
	return -1
}

func (t *table) nameAt(off uint32) string {
	b := t.names[off:]
	return string(b[:max(bytes.IndexByte(b, 0), 0)])
}
