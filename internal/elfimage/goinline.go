// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	"debug/elf"
	"errors"
)

const (
	funcdataInlTree    = 3  // FUNCDATA_InlTree of internal/abi
	moduleFuncsWord    = 40 // of runtime.moduledata.gofunc, since Go 1.20
	inlinedCallBytes   = 16 // runtime.inlinedCall, since Go 1.20
	noFuncdata         = 1<<32 - 1
	inlineUnknown      = 1<<64 - 1
	maxInlinedTreeSize = 1 << 20 // entries, as in the runtime
)

// errNoInline is the cause when a binary does not contain what was inlined: it is of a release before Go 1.20.
var errNoInline = errors.New("inlined calls are not known")

// GoInlined is runtime.inlinedCall: a call that was inlined.
type GoInlined struct {
	name uint32
	// ParentPC is an address in the function that it was inlined into, from the function's entry.
	ParentPC uint32
	// StartLine is the line of the called function.
	StartLine int32
}

// ResolveInline finds where the trees of inlined calls are. It is needed before InlinedCall; ResolveText comes before it.
func (t *GoTable) ResolveInline(f *File, sections []Section, buf []byte) error {
	t.inlined = inlineUnknown
	if t.version != MagicGo120 {
		return errNoInline
	}
	table, ok := f.AddressOf(t.file)
	if !ok {
		return errNoInline
	}
	addr := wordByData(f, sections, table, t.TextStart, moduleFuncsWord, buf)
	if addr == 0 {
		var err error
		if addr, err = wordByRelocation(f, table, t.word(), moduleFuncsWord, buf); err != nil {
			return errNoInline
		}
	}
	if t.inlined, ok = f.OffsetOf(addr); !ok {
		t.inlined = inlineUnknown
		return errNoInline
	}
	return nil
}

// InlinedCall reads an entry of a function's tree of inlined calls.
func (t *GoTable) InlinedCall(r Reader, info GoFunc, index int32) (GoInlined, error) {
	if t.inlined == inlineUnknown || t.inlined == 0 || info.tree == noFuncdata || index < 0 || index >= maxInlinedTreeSize {
		return GoInlined{}, errNoInline
	}
	var b [inlinedCallBytes]byte
	if err := ReadFull(r, b[:], t.inlined+uint64(info.tree)+uint64(index)*inlinedCallBytes); err != nil {
		return GoInlined{}, err
	}
	return GoInlined{name: le.Uint32(b[4:]), ParentPC: le.Uint32(b[8:]), StartLine: int32(le.Uint32(b[12:]))}, nil
}

// InlinedName reads the name of a function that was inlined.
func (t *GoTable) InlinedName(r Reader, call GoInlined) (string, error) {
	return ReadText(r, t.file+t.names+uint64(call.name), maxGoName)
}

// wordByData reads a word of runtime.moduledata from the initialised data: of the one that points to the table at the given address, and, if
// text is not 0, whose text begins there. It returns 0 when the data has none.
func wordByData(f *File, sections []Section, table, text, index uint64, buf []byte) (found uint64) {
	word := uint64(f.Pick(8, 4))
	at := func(off uint64) uint64 {
		var b [8]byte
		if f.Read(b[:word], off) != nil {
			return 0
		}
		return f.Word(b[:])
	}
	try := func(off uint64) uint64 {
		if text != 0 && at(off+moduleTextWord*word) != text {
			return 0
		}
		return at(off + index*word)
	}
	if s := f.SectionNamed(sections, ".go.module"); s != nil { // since Go 1.26
		if found = try(s.Off); found != 0 {
			return found
		}
	}
	left := uint64(maxModuleScan)
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_W == 0 {
			continue
		}
		n := min(p.Filesz, left)
		left -= n
		err := f.Chunks(buf, p.Off, n, word, func(pos uint64, b []byte) bool {
			for i := uint64(0); i < uint64(len(b)); i += word {
				if f.Word(b[i:]) == table {
					if found = try(p.Off + pos + i); found != 0 {
						return false
					}
				}
			}
			return true
		})
		if found != 0 || err != nil {
			return found
		}
	}
	return 0
}
