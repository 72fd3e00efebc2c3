// SPDX-License-Identifier: Apache-2.0

package tls

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/disasm"
)

// BoringSSL is linked into programs whose symbols are stripped. Its functions are recognized there by how they fail: each reports an error
// with the name of its source file and the number of the reason, which is the same in all versions.

// sslSource is the end of the name of the file that SSL_read and SSL_write are in.
var sslSource = []byte("/ssl/ssl_lib.cc\x00")

// openSSLSource is the end of that name in OpenSSL, whose reasons differ between versions.
var openSSLSource = []byte("ssl/ssl_lib.c\x00")

// rustlsText is in the targets of rustls' log messages, and in the names of its source files, which its panics contain.
var rustlsText = []byte("rustls")

// hasRustls reports whether rustls is in a program: it is linked into programs, and none of its functions has a name.
func hasRustls(file *elfimage.File, sections []elfimage.Section, buf []byte) (bool, error) {
	if codeBytes(sections) < leastText {
		return false, nil
	}
	found := false
	err := overlapping(file, sections, isText, buf, len(rustlsText), func(_ uint64, part []byte, _ bool) bool {
		found = bytes.Contains(part, rustlsText)
		return !found
	})
	return found, err
}

// Reasons of errors: include/openssl/ssl.h and err.h of BoringSSL.
const (
	notToBeCalled     = 66 // ERR_R_SHOULD_NOT_HAVE_BEEN_CALLED: the object is one for QUIC
	badHelloRequest   = 110
	badLength         = 111
	typeNotSet        = 134 // SSL_R_CONNECTION_TYPE_NOT_SET
	handshakeFailure  = 215
	uninitialized     = 226
	highestReason     = 400
	leastText         = 1 << 20 // bytes of code: a program with such a library in it has no less
	maxFunctionTable  = 16 << 20
	maxStrippedCode   = 64 << 10
	maxSourceFailures = 1 << 10
)

// failing is a function that reports an error.
type failing struct {
	entry   uint64
	reasons []uint32
	calls   []uint64 // functions, each once
}

func (f *failing) has(reasons ...uint32) bool {
	for _, r := range reasons {
		if !slices.Contains(f.reasons, r) {
			return false
		}
	}
	return true
}

// findStripped searches a program without symbols for BoringSSL, and for OpenSSL if it contains that.
func findStripped(file *elfimage.File, sections []elfimage.Section, buf []byte) (Found, error) {
	if codeBytes(sections) < leastText {
		return Found{}, nil
	}
	found, err := findBoring(file, sections, buf)
	if err != nil || found.Library != "" {
		return found, err
	}
	source, err := addressOfText(file, sections, openSSLSource, buf)
	if err != nil || source == 0 {
		return Found{}, err
	}
	functions, err := findNamed(file, sections, source, buf)
	return Found{Library: OpenSSL, Functions: functions}, err
}

// findBoring searches for BoringSSL by how its functions fail.
func findBoring(file *elfimage.File, sections []elfimage.Section, buf []byte) (Found, error) {
	if file.Machine != elf.EM_X86_64 {
		return Found{}, nil
	}
	source, err := addressOfText(file, sections, sslSource, buf)
	if err != nil || source == 0 {
		return Found{}, err
	}
	entries, err := functionEntries(file, sections)
	if err != nil || len(entries) == 0 {
		return Found{}, err
	}
	all, err := functionsThatName(file, sections, source, entries, buf)
	if err != nil {
		return Found{}, err
	}
	return identify(file, entries, all)
}

func codeBytes(sections []elfimage.Section) (sum uint64) {
	for i := range sections {
		if sections[i].Flags&elf.SHF_EXECINSTR != 0 {
			sum += sections[i].Size
		}
	}
	return sum
}

// identify finds out which function is which; nothing if that is not certain.
func identify(file *elfimage.File, entries []uint64, all []failing) (Found, error) {
	one := func(is func(*failing) bool) *failing {
		var found *failing
		for i := range all {
			if is(&all[i]) {
				if found != nil {
					return nil
				}
				found = &all[i]
			}
		}
		return found
	}
	write := one(func(f *failing) bool { return f.has(uninitialized, handshakeFailure, badLength) })
	// What SSL_read has in common with SSL_peek. Another function may have its reasons for hello requests, if the compiler did not inline
	// that one.
	refuses := func(f *failing) bool { return f.has(badHelloRequest) }
	impl := one(func(f *failing) bool {
		return f.has(uninitialized, handshakeFailure) && !f.has(badLength) && (refuses(f) || slices.ContainsFunc(all, func(called failing) bool {
			return refuses(&called) && slices.Contains(f.calls, called.entry)
		}))
	})
	if write == nil || impl == nil {
		return Found{}, nil
	}
	var readers []*failing
	for i := range all {
		f := &all[i]
		if f != impl && slices.Equal(f.reasons, []uint32{notToBeCalled}) && slices.Contains(f.calls, impl.entry) {
			readers = append(readers, f)
		}
	}
	read, err := readerOf(file, entries, readers)
	if err != nil || read == nil {
		return Found{}, err
	}
	functions := []Function{{Name: "SSL_read", Call: Read}, {Name: "SSL_write", Call: Write}}
	addresses := []uint64{read.entry, write.entry}
	handshake := one(func(f *failing) bool {
		return slices.Equal(f.reasons, []uint32{typeNotSet}) && slices.Contains(write.calls, f.entry)
	})
	if handshake != nil {
		functions, addresses = append(functions, Function{Name: "SSL_do_handshake", Call: FirstHandshake}), append(addresses, handshake.entry)
	}
	for i := range functions {
		offset, inFile := file.OffsetOf(addresses[i])
		if !inFile {
			return Found{}, nil
		}
		functions[i].Offset = offset
	}
	return Found{Library: BoringSSL, Functions: sorted(functions)}, nil
}

// readerOf is SSL_read, nil if that is not certain. SSL_peek does what reads have in common. SSL_read does that and consumes what was read,
// so it calls more functions. A program may have no SSL_peek, or an SSL_read without reasons that calls SSL_peek and is adjacent to it.
func readerOf(file *elfimage.File, entries []uint64, readers []*failing) (*failing, error) {
	const common, more = 2, 3 // called functions: what reads have in common, what records errors; what consumes
	switch len(readers) {
	case 1:
		if read := readers[0]; len(read.calls) == more {
			called, err := calledByNeighbor(file, entries, read.entry)
			if err != nil || called {
				return nil, err
			}
			return read, nil
		}
	case 2:
		peek, read := readers[0], readers[1]
		if len(read.calls) < len(peek.calls) {
			peek, read = read, peek
		}
		if len(peek.calls) >= common && len(peek.calls) < len(read.calls) {
			return read, nil
		}
	}
	return nil, nil
}

// calledByNeighbor reports whether the function before this one calls it, or the one after it.
func calledByNeighbor(file *elfimage.File, entries []uint64, entry uint64) (bool, error) {
	i, _ := slices.BinarySearch(entries, entry)
	for _, neighbor := range []int{i - 1, i + 1} {
		if neighbor < 0 || neighbor+1 >= len(entries) {
			continue
		}
		f, err := readFailing(file, entries[neighbor], entries[neighbor+1], entries)
		if err != nil {
			return false, err
		}
		if f == nil || slices.Contains(f.calls, entry) {
			return true, nil // or it cannot be read, and it is not certain that it does not call this one
		}
	}
	return false, nil
}

// addressOfText is the address of a text that has this end, 0 if there is none.
func addressOfText(file *elfimage.File, sections []elfimage.Section, end, buf []byte) (address uint64, err error) {
	const longest = 256 // bytes before the end
	err = overlapping(file, sections, isText, buf, longest+len(end), func(part uint64, b []byte, first bool) bool {
		at := bytes.Index(b, end)
		if at < 0 {
			return true
		}
		begin := bytes.LastIndexByte(b[:at], 0)
		if begin < 0 && !first {
			return true // the next part has all of it
		}
		address = part + uint64(begin+1)
		return false
	})
	return address, err
}

// isText reports whether a section has read-only texts of a program, isCode whether it has its code.
func isText(s *elfimage.Section) bool {
	return s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_ALLOC != 0 && s.Flags&(elf.SHF_EXECINSTR|elf.SHF_WRITE) == 0
}

func isCode(s *elfimage.Section) bool {
	return s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_EXECINSTR != 0
}

// overlapping calls visit with parts of some sections, their addresses and whether a section begins with them, until it returns false. Each
// part but a section's first begins with some last bytes of the previous one.
func overlapping(file *elfimage.File, sections []elfimage.Section, some func(*elfimage.Section) bool, buf []byte, overlap int,
	visit func(address uint64, b []byte, first bool) bool,
) error {
	for i := range sections {
		s := &sections[i]
		if !some(s) {
			continue
		}
		for pos := uint64(0); pos < s.Size; {
			b := buf[:min(uint64(len(buf)), s.Size-pos)]
			if err := file.Read(b, s.Off+pos); err != nil {
				return err
			}
			if !visit(s.Addr+pos, b, pos == 0) {
				return nil
			}
			if pos+uint64(len(b)) >= s.Size {
				break
			}
			pos += uint64(len(b) - overlap)
		}
	}
	return nil
}

// functionEntries returns where functions begin, in order, by the table for unwinding: Linux Standard Base, .eh_frame_hdr.
func functionEntries(file *elfimage.File, sections []elfimage.Section) ([]uint64, error) {
	const (
		headBytes, entryBytes = 12, 8
		form                  = "\x01\x1b\x03\x3b" // as linkers write it: offsets of 32 bits, from the table's own address
	)
	s := file.SectionNamed(sections, ".eh_frame_hdr")
	if s == nil { // as in programs that gcc links statically
		return frameEntries(file, sections)
	}
	if s.Size < headBytes || s.Size > maxFunctionTable {
		return nil, nil
	}
	table := make([]byte, s.Size)
	if err := file.Read(table, s.Off); err != nil {
		return nil, err
	}
	if string(table[:len(form)]) != form {
		return nil, nil
	}
	count := min(uint64(binary.LittleEndian.Uint32(table[8:])), (s.Size-headBytes)/entryBytes)
	entries := make([]uint64, count)
	for i := range entries {
		entries[i] = s.Addr + uint64(int64(int32(binary.LittleEndian.Uint32(table[headBytes+i*entryBytes:]))))
	}
	slices.Sort(entries)
	return entries, nil
}

// frameEntries returns where functions begin by the records for unwinding, if no table lists them: Linux Standard Base, .eh_frame. It expects
// what compilers write: addresses are offsets of 32 bits, from themselves; anything outside of the code is skipped.
func frameEntries(file *elfimage.File, sections []elfimage.Section) ([]uint64, error) {
	const (
		lengthBytes = 4
		shortest    = 12 // bytes of a record: a reference to its common part, and an address with its length
		long        = 0xffffffff
	)
	s := file.SectionNamed(sections, ".eh_frame")
	if s == nil || s.Size > maxFunctionTable {
		return nil, nil
	}
	records := make([]byte, s.Size)
	if err := file.Read(records, s.Off); err != nil {
		return nil, err
	}
	inCode := func(address uint64) bool {
		return slices.ContainsFunc(sections, func(of elfimage.Section) bool {
			return of.Flags&elf.SHF_EXECINSTR != 0 && address >= of.Addr && address-of.Addr < of.Size
		})
	}
	var entries []uint64
	for at := uint64(0); at+lengthBytes <= s.Size; {
		length := uint64(binary.LittleEndian.Uint32(records[at:]))
		at += lengthBytes
		if length == long || length > s.Size-at {
			break
		}
		if record := records[at : at+length]; length >= shortest && binary.LittleEndian.Uint32(record) != 0 { // else it is a common part, or an end
			address := s.Addr + at + lengthBytes + uint64(int64(int32(binary.LittleEndian.Uint32(record[lengthBytes:]))))
			if inCode(address) {
				entries = append(entries, address)
			}
		}
		at += length
	}
	slices.Sort(entries)
	return entries, nil
}

// maxReferences bounds the references to texts that are kept.
const maxReferences = 1 << 12

// eachReference calls visit with each instruction that takes an address relative to itself (lea): the address of the next instruction, and
// the one it takes.
func eachReference(file *elfimage.File, sections []elfimage.Section, buf []byte, visit func(next, address uint64)) error {
	const size = 7 // lea text(%rip), register
	return overlapping(file, sections, isCode, buf, size, func(part uint64, b []byte, _ bool) bool {
		for at := 1; at+size <= len(b)+1; at++ {
			if b[at] != 0x8d || b[at-1]&0xfb != 0x48 || b[at+1]&0xc7 != 0x05 {
				continue
			}
			next := part + uint64(at-1) + size
			visit(next, next+uint64(int64(int32(binary.LittleEndian.Uint32(b[at+2:])))))
		}
		return true
	})
}

// extentAt returns where the function begins that contains an address, and where the next one does.
func extentAt(entries []uint64, address uint64) (begin, end uint64, ok bool) {
	i, _ := slices.BinarySearch(entries, address)
	if i == 0 || i >= len(entries) {
		return 0, 0, false
	}
	return entries[i-1], entries[i], true
}

// functionsThatName returns the functions that refer to the address of a text, relative to themselves.
func functionsThatName(file *elfimage.File, sections []elfimage.Section, text uint64, entries []uint64, buf []byte) ([]failing, error) {
	found := map[uint64]uint64{}
	err := eachReference(file, sections, buf, func(next, address uint64) {
		if begin, end, ok := extentAt(entries, next); ok && address == text && len(found) < maxSourceFailures {
			found[begin] = end
		}
	})
	if err != nil {
		return nil, err
	}
	var all []failing
	for begin, end := range found {
		f, err := readFailing(file, begin, end, entries)
		if err != nil {
			return nil, err
		}
		if f != nil {
			all = append(all, *f)
		}
	}
	return all, nil
}

// codeOf reads the code from one address to another; nil where the file has none there, or too much.
func codeOf(file *elfimage.File, begin, end uint64) ([]byte, error) {
	offset, inFile := file.OffsetOf(begin)
	if !inFile || end-begin > maxStrippedCode {
		return nil, nil
	}
	code := make([]byte, end-begin)
	return code, file.Read(code, offset)
}

// readFailing finds the reasons for which a function fails; nil if it cannot be decoded.
func readFailing(file *elfimage.File, begin, end uint64, entries []uint64) (*failing, error) {
	code, err := codeOf(file, begin, end)
	if err != nil || code == nil {
		return nil, err
	}
	f := &failing{entry: begin}
	err = disasm.Instructions(file.Machine, code, begin, func(_ uint64, raw []byte, target uint64) {
		const moveToThird = 0xba // mov $reason, %edx
		if raw[0] == moveToThird && len(raw) == 5 {
			if reason := binary.LittleEndian.Uint32(raw[1:]); reason < highestReason && reason > 1 && !slices.Contains(f.reasons, reason) {
				f.reasons = append(f.reasons, reason)
			}
		}
		if _, isEntry := slices.BinarySearch(entries, target); isEntry && target != begin && !slices.Contains(f.calls, target) {
			f.calls = append(f.calls, target)
		}
	})
	if err != nil {
		return nil, nil //nolint:nilerr // code that this decoder does not know is not the wanted function
	}
	slices.Sort(f.reasons)
	return f, nil
}
