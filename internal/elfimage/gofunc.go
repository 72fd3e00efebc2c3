// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	enc "encoding/binary"
	"errors"
)

const (
	inlineTree  = 2       // PCDATA_InlTreeIndex of internal/abi
	maxPCSteps  = 1 << 15 // entries of a pc-value table that are followed
	maxGoName   = 8 << 10 // bytes of a function's name that are read
	maxFilename = 4 << 10
)

// Flags of functions, from internal/abi.
const (
	GoTopFrame = 1 << 0 // the outermost of its stack: FuncFlagTopFrame
	GoWritesSP = 1 << 1 // switches stacks: FuncFlagSPWrite
	GoAssembly = 1 << 2 // written in assembler: FuncFlagAsm, since Go 1.18
)

var errBadFunc = errors.New("function data contradicts itself")

// GoFunc is the content of runtime._func; offsets are from the tables that the header names.
type GoFunc struct {
	Entry          uint64 // virtual address
	name           uint32
	PCSP           uint32 // pc-value table of the stack size below the return address
	PCFile, PCLine uint32 // pc-value tables of the number of the file, and of the line
	unit           uint32
	StartLine      int32
	ID             byte   // special functions, FuncID of internal/abi; 0 before Go 1.12
	Flags          byte   // GoWritesSP among others; 0 before Go 1.17
	Inlined        uint32 // pc-value table of inlined calls, 0 when there is none
	tree           uint32 // of inlined calls, relative to the trees that ResolveInline found; noFuncdata when there is none
}

// Info reads the i-th function.
func (t *GoTable) Info(r Reader, i int) (GoFunc, error) {
	e := t.entries[i]
	out := GoFunc{Entry: t.TextStart + uint64(e.entry), tree: noFuncdata}
	off := t.file + t.infos + uint64(e.info)
	skip := t.word() // the entry
	if t.version == MagicGo118 || t.version == MagicGo120 {
		skip = 4
	}
	off += skip
	var b [44]byte
	fixed := 28 // name, args, deferreturn, pcsp, pcfile, pcln, npcdata
	if t.version != MagicGo12 {
		fixed += 4 // unit
	}
	if t.version == MagicGo120 {
		fixed += 4 // startLine
	}
	// A word follows: function id, flags since Go 1.17, unused, count of funcdata.
	if err := ReadFull(r, b[:fixed+4], off); err != nil {
		return out, err
	}
	out.PCSP = le.Uint32(b[12:])
	out.name, out.PCFile, out.PCLine = le.Uint32(b[0:]), le.Uint32(b[16:]), le.Uint32(b[20:])
	if t.version != MagicGo12 {
		out.unit = le.Uint32(b[28:])
	}
	if t.version == MagicGo120 {
		out.StartLine = int32(le.Uint32(b[32:]))
	}
	if t.version != MagicGo12 {
		out.ID, out.Flags = b[fixed], b[fixed+1]
	}
	funcdata := b[fixed+3]
	if npcdata := le.Uint32(b[24:]); npcdata > inlineTree {
		if t.version == MagicGo120 && funcdata > funcdataInlTree {
			if err := ReadFull(r, b[:4], off+uint64(fixed)+4+4*(uint64(npcdata)+funcdataInlTree)); err != nil {
				return out, err
			}
			out.tree = le.Uint32(b[:])
		}
		if err := ReadFull(r, b[:4], off+uint64(fixed)+4+4*inlineTree); err != nil {
			return out, err
		}
		out.Inlined = le.Uint32(b[:])
	}
	return out, nil
}

// Name reads a function's name.
func (t *GoTable) Name(r Reader, info GoFunc) (string, error) {
	return ReadText(r, t.file+t.names+uint64(info.name), maxGoName)
}

// Filename reads the name of a file by its number in the function's unit.
func (t *GoTable) Filename(r Reader, info GoFunc, number int32) (string, error) {
	if number < 0 {
		return "", errBadFunc
	}
	var b [4]byte
	if t.version == MagicGo12 {
		if err := ReadFull(r, b[:], t.file+t.files+4*uint64(number)); err != nil {
			return "", err
		}
		return ReadText(r, t.file+uint64(le.Uint32(b[:])), maxFilename)
	}
	if err := ReadFull(r, b[:], t.file+t.units+4*(uint64(info.unit)+uint64(number))); err != nil {
		return "", err
	}
	rel := le.Uint32(b[:])
	if rel == ^uint32(0) {
		return "", nil // dead-code elimination left no name
	}
	return ReadText(r, t.file+t.files+uint64(rel), maxFilename)
}

// Value runs the pc-value table at the given offset up to the target: pairs of
// a zig-zag value delta and a pc delta, both varints, from -1 and the entry.
func (t *GoTable) Value(r Reader, table uint32, info GoFunc, target uint64) (int32, error) {
	if table == 0 {
		return -1, nil
	}
	found, ok := int32(0), false
	err := t.Values(r, table, info, func(_, to uint64, val int32) bool {
		found, ok = val, target < to
		return !ok
	})
	if err == nil && !ok {
		err = errBadFunc
	}
	return found, err
}

// Values calls visit with each range of addresses of the pc-value table at the
// given offset and its value, until it returns false.
func (t *GoTable) Values(r Reader, table uint32, info GoFunc, visit func(from, to uint64, val int32) bool) error {
	if table == 0 {
		return nil
	}
	v := varints{r: r, off: t.file + t.pcs + uint64(table)}
	pc, val := info.Entry, int32(-1)
	for step := range maxPCSteps {
		delta := v.next()
		if v.err != nil {
			return v.err
		}
		if delta == 0 && step > 0 {
			return nil
		}
		val += int32(delta>>1) ^ -int32(delta&1)
		from := pc
		pc += uint64(v.next()) * uint64(t.quantum)
		if v.err != nil {
			return v.err
		}
		if !visit(from, pc, val) {
			return nil
		}
	}
	return errBadFunc
}

// varints reads a sequence of varints from a file.
type varints struct {
	r   Reader
	off uint64
	b   []byte // what is left of the block at off
	err error
}

func (v *varints) next() uint32 {
	if len(v.b) < enc.MaxVarintLen32 {
		if v.fill(); v.err != nil {
			return 0
		}
	}
	val, n := enc.Uvarint(v.b)
	if n <= 0 || val > 1<<32-1 {
		v.err = errBadFunc
		return 0
	}
	v.b, v.off = v.b[n:], v.off+uint64(n)
	return uint32(val)
}

// fill gets the next block, or, across its end, copies a few bytes of both.
func (v *varints) fill() {
	v.b, v.err = v.r.Block(v.off)
	if v.err != nil || len(v.b) >= enc.MaxVarintLen32 {
		return
	}
	both := append(make([]byte, 0, 64), v.b...)
	if more, err := v.r.Block(v.off + uint64(len(v.b))); err == nil {
		both = append(both, more[:min(len(more), 32)]...)
	}
	v.b = both
}
