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

// OpenSSL is linked into programs whose symbols are stripped. Since 3.0 a function that fails reports its own name (ERR_set_debug of
// include/openssl/err.h, OPENSSL_FUNC): one that refers to the text of its name and to that of its source file is that function.

// Names of functions of ssl/ssl_lib.c that fail, so that their names are in the program. All reads and writes call two of them.
const (
	readsAll  = "ssl_read_internal"
	writesAll = "ssl_write_internal"
	writesOne = "SSL_write" // calls writesAll, whose number of arguments its calls show
	readsOne  = "SSL_read"  // calls readsAll
	peeksAll  = "ssl_peek_internal"
	shakes    = "SSL_do_handshake"
)

var namedByOpenSSL = []string{readsAll, writesAll, writesOne, readsOne, peeksAll, shakes}

// maxNamesakes is how many texts that equal the name of a function are examined.
const maxNamesakes = 64

// findNamed searches for OpenSSL's functions by the names that they report with errors; nothing if it is not certain which they are.
func findNamed(file *elfimage.File, sections []elfimage.Section, source uint64, buf []byte) ([]Function, error) {
	if file.Machine != elf.EM_X86_64 {
		return nil, nil
	}
	entries, err := functionEntries(file, sections)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	texts, err := namesakes(file, sections, buf)
	if err != nil {
		return nil, err
	}
	named, err := functionsNamed(file, sections, entries, texts, source, buf)
	if err != nil {
		return nil, err
	}
	at := map[string]extent{}
	for _, name := range namedByOpenSSL {
		if len(named[name]) == 1 { // else there are several, or none
			at[name] = named[name][0]
		}
	}
	// Unlikely code may lie apart from the rest of its function: what another function calls is a beginning.
	_, reads, err := argumentOfCall(file, at[readsOne], at[readsAll].begin)
	if err != nil || !reads {
		return nil, err
	}
	write, writes, err := argumentOfCall(file, at[writesOne], at[writesAll].begin)
	if err != nil || !writes {
		return nil, err
	}
	found := []Function{{Name: readsAll, Call: ReadCounted}}
	switch write {
	case fourth:
		found = append(found, Function{Name: writesAll, Call: WriteCounted})
	case fifth:
		found = append(found, Function{Name: writesAll, Call: WriteFlagged})
	default:
		return nil, nil
	}
	entered, err := areEntered(file, sections, entries, buf, at[shakes].begin, at[peeksAll].begin)
	if err != nil || !entered[at[shakes].begin] { // its calls show which objects are new
		return nil, err
	}
	found = append(found, Function{Name: shakes, Call: FirstHandshake})
	if entered[at[peeksAll].begin] {
		found = append(found, Function{Name: peeksAll, Call: Handshake})
	}
	for i := range found {
		offset, inFile := file.OffsetOf(at[found[i].Name].begin)
		if !inFile {
			return nil, nil
		}
		found[i].Offset = offset
	}
	return sorted(found), nil
}

// extent is where a function begins, and where the next one does.
type extent struct{ begin, end uint64 }

// namesakes returns the addresses of texts that are the name of one of the functions, and that name.
func namesakes(file *elfimage.File, sections []elfimage.Section, buf []byte) (map[uint64]string, error) {
	const longest = 32
	texts := map[uint64]string{}
	err := overlapping(file, sections, isText, buf, longest, func(part uint64, b []byte, first bool) bool {
		for _, name := range namedByOpenSSL {
			whole := append([]byte(name), 0)
			for from := 0; len(texts) < maxNamesakes; {
				at := bytes.Index(b[from:], whole)
				if at < 0 {
					break
				}
				at += from
				if at == 0 && first || at > 0 && b[at-1] == 0 {
					texts[part+uint64(at)] = name
				}
				from = at + len(whole)
			}
		}
		return true
	})
	return texts, err
}

// functionsNamed returns the functions that refer to one of the texts and to the source, by that text.
func functionsNamed(file *elfimage.File, sections []elfimage.Section, entries []uint64, texts map[uint64]string, source uint64, buf []byte) (map[string][]extent, error) {
	inSource, by := map[uint64]bool{}, map[string][]extent{}
	references := 0
	err := eachReference(file, sections, buf, func(next, address uint64) {
		name, isName := texts[address]
		if !isName && address != source {
			return
		}
		begin, end, ok := extentAt(entries, next)
		if references++; !ok || references > maxReferences {
			return
		}
		if address == source {
			inSource[begin] = true
		} else if e := (extent{begin, end}); !slices.Contains(by[name], e) {
			by[name] = append(by[name], e)
		}
	})
	for name := range by {
		by[name] = slices.DeleteFunc(by[name], func(e extent) bool { return !inSource[e.begin] })
	}
	return by, err
}

// Which argument of a call is the address of something on the caller's stack.
const (
	fourth = 4
	fifth  = 5
)

// argumentOfCall reports whether a function calls another one, and which argument of that is the last that is given an address on the stack;
// 0: it cannot be determined.
func argumentOfCall(file *elfimage.File, caller extent, called uint64) (argument int, calls bool, err error) {
	code, err := codeOf(file, caller.begin, caller.end)
	if err != nil || code == nil || called == 0 {
		return 0, false, err
	}
	last := 0
	undecoded := disasm.Instructions(file.Machine, code, caller.begin, func(_ uint64, raw []byte, target uint64) {
		switch {
		case target == called && raw[0] == callRelative:
			argument, calls = last, true
		case onStack(raw, 0x48, 1) || slices.Equal(raw, []byte{0x48, 0x89, 0xe1}): // rcx; or the stack's end itself
			last = fourth
		case onStack(raw, 0x4c, 0) || slices.Equal(raw, []byte{0x49, 0x89, 0xe0}): // r8; likewise
			last = fifth
		}
	})
	if undecoded != nil {
		return 0, false, nil //nolint:nilerr // code that this decoder does not know is not the wanted function
	}
	return argument, calls, nil
}

// The instructions call and jmp, to an address relative to themselves.
const (
	callRelative = 0xe8
	jumpRelative = 0xe9
)

// onStack reports whether an instruction takes an address on the stack (lea) into a register: its prefix, and its number.
func onStack(raw []byte, prefix, register byte) bool {
	const stack, frame = 4, 5 // rsp, in the byte that follows; rbp
	if len(raw) < 4 || raw[0] != prefix || raw[1] != 0x8d || raw[2]>>3&7 != register || raw[2]>>6 == 3 {
		return false
	}
	return raw[2]&7 == stack && raw[3]&7 == stack || raw[2]&7 == frame && raw[2]>>6 != 0
}

// areEntered returns which addresses are functions' beginnings: they are called, or jumped to from several functions. Only a function itself
// jumps to its unlikely code that lies apart.
func areEntered(file *elfimage.File, sections []elfimage.Section, entries []uint64, buf []byte, addresses ...uint64) (map[uint64]bool, error) {
	const size = 5
	entered, jumpedTo := map[uint64]bool{}, map[uint64]uint64{} // jumpedTo: by the first function that does
	err := overlapping(file, sections, isCode, buf, size, func(part uint64, b []byte, _ bool) bool {
		for at := 0; at+size <= len(b); at++ {
			if b[at] != callRelative && b[at] != jumpRelative {
				continue
			}
			next := part + uint64(at) + size
			target := next + uint64(int64(int32(binary.LittleEndian.Uint32(b[at+1:]))))
			if target == 0 || !slices.Contains(addresses, target) {
				continue
			}
			from, _, ok := extentAt(entries, next)
			first, again := jumpedTo[target]
			if b[at] == callRelative || again && first != from {
				entered[target] = true
			}
			if ok && !again {
				jumpedTo[target] = from
			}
		}
		return true
	})
	return entered, err
}
