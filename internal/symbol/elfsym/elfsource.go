// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"debug/elf"
	enc "encoding/binary"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

var le = enc.LittleEndian

// Sources finds the symbol tables of a file: those of its sections, or, if sections were stripped, the one that the dynamic linker uses.
func Sources(f *elfimage.File, sections []elfimage.Section) ([]Source, error) {
	var out []Source
	for _, s := range sections {
		if s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_DYNSYM || int(s.Link) >= len(sections) {
			continue
		}
		str := sections[s.Link]
		if !f.Has(s.Off, s.Size) || !f.Has(str.Off, str.Size) {
			return nil, fmt.Errorf("symbol table: %w", elfimage.ErrTruncated)
		}
		if len(out) == 2 || len(out) == 1 && out[0].dynamic == (s.Type == elf.SHT_DYNSYM) {
			continue // one of each
		}
		out = append(out, Source{
			off: s.Off, size: s.Size, entsize: s.Entsize,
			strings: elfimage.Span{Start: str.Off, End: str.Off + str.Size}, dynamic: s.Type == elf.SHT_DYNSYM,
		})
	}
	if len(out) > 0 || len(sections) > 0 {
		return out, nil
	}
	d, err := elfimage.ReadDynamic(f)
	if err != nil {
		return nil, err
	}
	if s, ok := dynamicSymbols(f, d); ok {
		out = append(out, s)
	}
	return out, nil
}

const maxChain = 1 << 16 // symbols in one chain of a hash table

// dynamicSymbols locates the dynamic symbol table. Only the hash tables that index it have its length.
func dynamicSymbols(f *elfimage.File, d elfimage.Dynamic) (Source, bool) {
	off, ok := f.OffsetOf(d[elf.DT_SYMTAB])
	str, okStr := f.OffsetOf(d[elf.DT_STRTAB])
	if !ok || !okStr || !f.Has(str, d[elf.DT_STRSZ]) {
		return Source{}, false
	}
	ent := uint64(f.Pick(elf.Sym64Size, elf.Sym32Size))
	n := min(countSymbols(f, d), maxSymtab/ent)
	if n == 0 || !f.Has(off, n*ent) {
		return Source{}, false
	}
	return Source{off: off, size: n * ent, entsize: ent, strings: elfimage.Span{Start: str, End: str + d[elf.DT_STRSZ]}, dynamic: true}, true
}

// countSymbols is the number of dynamic symbols, 0 when it cannot be found out.
func countSymbols(f *elfimage.File, d elfimage.Dynamic) uint64 {
	var b [16]byte
	if off, ok := f.OffsetOf(d[elf.DT_HASH]); ok && d[elf.DT_HASH] != 0 && f.Read(b[:8], off) == nil {
		return uint64(le.Uint32(b[4:])) // nchain
	}
	off, ok := f.OffsetOf(d[elf.DT_GNU_HASH])
	if !ok || d[elf.DT_GNU_HASH] == 0 || f.Read(b[:], off) != nil {
		return 0
	}
	// nbuckets, symoffset, bloom_size, bloom_shift, bloom[], buckets[], chain[]
	buckets, first, bloom := uint64(le.Uint32(b[:])), uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:]))
	off += 16 + bloom*uint64(f.Pick(8, 4))
	if buckets > 1<<22 || !f.Has(off, buckets*4) {
		return 0
	}
	last := uint64(0)
	buf := make([]byte, 4096)
	err := f.Chunks(buf, off, buckets*4, 4, func(_ uint64, c []byte) bool {
		for ; len(c) > 0; c = c[4:] {
			last = max(last, uint64(le.Uint32(c)))
		}
		return true
	})
	if err != nil || last < first {
		return 0
	}
	return chainEnd(f, off+buckets*4, first, last)
}

// chainEnd follows the last chain of a GNU hash table to its end, which is
// marked by the lowest bit; the symbol there is the last one.
func chainEnd(f *elfimage.File, chains, first, last uint64) uint64 {
	var b [4]byte
	for stop := last + maxChain; last < stop; last++ {
		if f.Read(b[:], chains+(last-first)*4) != nil {
			return 0
		}
		if le.Uint32(b[:])&1 != 0 {
			return last + 1
		}
	}
	return 0
}
