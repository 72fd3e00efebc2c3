// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"cmp"
	"debug/elf"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// readBytes is how much is read at once.
const readBytes = 64 << 10

// Find returns the functions of a binary that allocate or free, by offset; none
// where it has none, or is for another machine. The caller adds the path to the
// error.
func Find(image elfimage.Image) ([]Function, error) {
	file, err := elfimage.Parse(image)
	if err != nil {
		return nil, err
	}
	if !file.Is64 || file.Machine != machine {
		return nil, nil
	}
	sections, err := file.Sections()
	if err != nil {
		return nil, err
	}
	buf := make([]byte, readBytes)
	goFunctions, err := findGo(file, sections, buf)
	if err != nil {
		return nil, err
	}
	// C code that is linked to it has symbols, or is of no interest.
	cFunctions, err := findC(file, sections, buf)
	return append(goFunctions, cFunctions...), err
}

// findC searches the dynamic symbols, and if these name no allocator the symbol table,
// which programs with an allocator of their own may have.
func findC(file *elfimage.File, sections []elfimage.Section, buf []byte) ([]Function, error) {
	for _, kind := range []elf.SectionType{elf.SHT_DYNSYM, elf.SHT_SYMTAB} {
		found := map[string]uint64{}
		if err := file.EachFunction(sections, kind, buf, func(name []byte, address uint64) {
			if _, ok := wanted[string(name)]; ok {
				found[string(name)] = address
			}
		}); err != nil {
			return nil, err
		}
		if out := chosen(file, found); len(out) > 0 {
			return out, nil
		}
	}
	return nil, nil
}

// chosen keeps the functions that count: one for each address, operators only of
// allocators that bring them, and nothing where nothing allocates.
func chosen(file *elfimage.File, found map[string]uint64) []Function {
	own := slices.ContainsFunc(ownOperators, func(name string) bool { _, ok := found[name]; return ok })
	byOffset := map[uint64]Function{}
	allocates := false
	for name, address := range found {
		call := wanted[name]
		_, isOperator := operators[name]
		offset, inFile := file.OffsetOf(address)
		if call == mark || isOperator && !own || !inFile {
			continue
		}
		allocates = allocates || call != Release
		// Of several names the one that is more careful, then the first by name.
		old, ok := byOffset[offset]
		if !ok || call > old.Call || call == old.Call && name < old.Name {
			byOffset[offset] = Function{Name: name, Call: call, Offset: offset}
		}
	}
	if !allocates {
		return nil
	}
	out := make([]Function, 0, len(byOffset))
	for _, f := range byOffset {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Function) int { return cmp.Compare(a.Offset, b.Offset) })
	return out
}
