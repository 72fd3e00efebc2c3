// SPDX-License-Identifier: Apache-2.0

package disasm

// What follows an opcode of x86-64, by "Opcode Map" in appendix A of volume 2
// of Intel's Software Developer's Manual.
const (
	xNone  = '-'
	xM     = 'm' // ModRM
	xMByte = 'b' // ModRM and 1 byte
	xMWord = 'z' // ModRM and 4 bytes, 2 with the operand-size prefix
	xByte  = 'i' // 1 byte
	xWord  = 'w' // 4 bytes, 2 with the operand-size prefix
	xBad   = 'x' // invalid, or decoded apart
)

// One character for each opcode, 16 in a row.
const (
	oneByte = "mmmmiwxxmmmmiwxx" + "mmmmiwxxmmmmiwxx" + "mmmmiwxxmmmmiwxx" + "mmmmiwxxmmmmiwxx" +
		"xxxxxxxxxxxxxxxx" + "----------------" + "xxxmxxxxwzib----" + "iiiiiiiiiiiiiiii" +
		"bzxbmmmmmmmmmmmm" + "----------x-----" + "xxxx----iw------" + "iiiiiiiixxxxxxxx" +
		"bbx-xxbzx-x--ix-" + "mmmmxxx-mmmmmmmm" + "iiiiiiiixxxi----" + "x-xx--mm------mm"
	twoByte = "mmmmx-----x-xm-x" + "mmmmmmmmmmmmmmmm" + "mmmmxxxxmmmmmmmm" + "------x-xxxxxxxx" +
		"mmmmmmmmmmmmmmmm" + "mmmmmmmmmmmmmmmm" + "mmmmmmmmmmmmmmmm" + "bbbbmmm-mmmmmmmm" +
		"xxxxxxxxxxxxxxxx" + "mmmmmmmmmmmmmmmm" + "---mbmxx---mbmmm" + "mmmmmmmmmmbmmmmm" +
		"mmbmbbbm--------" + "mmmmmmmmmmmmmmmm" + "mmmmmmmmmmmmmmmm" + "mmmmmmmmmmmmmmmm"
)

// x86 is an instruction that is being decoded.
type x86 struct {
	code           []byte
	n              int // bytes taken
	rex            byte
	small, address bool // operand-size and address-size prefixes
	bad            bool
}

const stackPointer = 4 // number of rsp

func (x *x86) next() byte {
	if x.n >= len(x.code) || x.n >= MaxInstruction {
		x.bad = true
		return 0
	}
	x.n++
	return x.code[x.n-1]
}

// number takes an immediate of 1 or 4 bytes, with its sign.
func (x *x86) number(size int) int64 {
	if size == 1 {
		return int64(int8(x.next())) //nolint:gosec // a signed byte
	}
	var v uint32
	for shift := 0; shift < 32; shift += 8 {
		v |= uint32(x.next()) << shift
	}
	return int64(int32(v)) //nolint:gosec // a signed word
}

func (x *x86) skip(n int) {
	if x.n += n; x.n > len(x.code) || x.n > MaxInstruction {
		x.bad = true
	}
}

// modRM is the byte that encodes the operands.
type modRM byte

func (m modRM) mod() byte { return byte(m) >> 6 }
func (m modRM) reg() byte { return byte(m) >> 3 & 7 }
func (m modRM) rm() byte  { return byte(m) & 7 }

// operands reads a ModRM byte with all that belongs to it.
func (x *x86) operands() modRM {
	m := modRM(x.next())
	if m.mod() == 3 {
		return m
	}
	base := m.rm()
	if base == 4 {
		base = x.next() & 7 // of the SIB byte
	}
	switch {
	case m.mod() == 1:
		x.skip(1)
	case m.mod() == 2 || base == 5:
		x.skip(4)
	}
	return m
}

// word skips an immediate of the operand's size, at most 4 bytes.
func (x *x86) word() {
	if x.small && x.rex&8 == 0 {
		x.skip(2)
		return
	}
	x.skip(4)
}

// follow reads what follows the opcode, by its table entry.
func (x *x86) follow(kind byte) (m modRM) {
	switch kind {
	case xM:
		return x.operands()
	case xMByte:
		m = x.operands()
		x.skip(1)
	case xMWord:
		m = x.operands()
		x.word()
	case xByte:
		x.skip(1)
	case xWord:
		x.word()
	case xBad:
		x.bad = true
	}
	return m
}

// prefixes reads all prefixes and returns the opcode.
func (x *x86) prefixes() byte {
	for {
		switch b := x.next(); {
		case b == 0x66:
			x.small = true
		case b == 0x67:
			x.address = true
		case b == 0x26, b == 0x2e, b == 0x36, b == 0x3e, b == 0x64, b == 0x65, b == 0xf0, b == 0xf2, b == 0xf3:
		case b&0xf0 == 0x40:
			x.rex = b
			return x.next()
		default:
			return b
		}
	}
}

// decodeX86 is a [Decoder] for x86-64 in 64-bit mode.
func decodeX86(code []byte, at uint64) Instruction {
	x := x86{code: code}
	var in Instruction
	switch op := x.prefixes(); op {
	case 0x0f:
		x.twoByte(&in)
	case 0xc4, 0xc5, 0x62:
		x.vector(op)
	default:
		x.oneByte(op, &in)
	}
	if x.bad {
		return Instruction{}
	}
	in.Size = x.n
	if in.Flow == Call || in.Flow == Jump {
		in.Target += at + uint64(x.n)
	}
	return in
}

func (x *x86) oneByte(op byte, in *Instruction) {
	switch {
	case op >= 0x50 && op <= 0x5f, op == 0x68, op == 0x6a, op == 0x9c, op == 0x9d, op == 0xc9:
		in.MovesStack = true // push, pop, pushf, popf, leave
	case op >= 0x70 && op <= 0x7f, op >= 0xe0 && op <= 0xe3, op == 0xeb:
		in.Flow, in.Target = Jump, uint64(x.number(1)) //nolint:gosec // wraps as addresses do
		return
	case op == 0xe8, op == 0xe9:
		in.Flow = Call + Flow(op-0xe8)*(Jump-Call)
		in.Target = uint64(x.number(4)) //nolint:gosec // wraps as addresses do
		return
	case op >= 0xa0 && op <= 0xa3: // an absolute address
		if x.address {
			x.skip(4)
			return
		}
		x.skip(8)
		return
	case op >= 0xb8 && op <= 0xbf:
		in.MovesStack = op == 0xb8+stackPointer && x.rex&1 == 0
		if x.word(); x.rex&8 != 0 {
			x.skip(4)
		}
		return
	case op == 0xc2 || op == 0xca: // return and release
		in.returns = true
		x.skip(2)
		return
	case op == 0xc3:
		in.returns = true
	case op == 0xc8: // enter
		in.MovesStack = true
		x.skip(3)
		return
	case op >= 0x91 && op <= 0x97: // exchange with rax
		in.MovesStack = op == 0x90+stackPointer && x.rex&1 == 0
	}
	m := x.follow(oneByte[op])
	x.group(op, m, in)
}

// group decodes the operands of opcodes that have a ModRM byte.
func (x *x86) group(op byte, m modRM, in *Instruction) {
	switch op {
	case 0xf6, 0xf7: // only test has an immediate
		if m.reg() <= 1 && op == 0xf6 {
			x.skip(1)
		} else if m.reg() <= 1 {
			x.word()
		}
	case 0x8f: // pop; the others are AMD's XOP
		in.MovesStack, x.bad = true, x.bad || m.reg() != 0
	case 0xff:
		switch m.reg() {
		case 2:
			in.Flow = CallIndirect
		case 4:
			in.Flow = JumpIndirect
		case 3, 5, 7: // far, or invalid
			x.bad = true
		case 6:
			in.MovesStack = true
		}
	}
	in.MovesStack = in.MovesStack || x.writesStackPointer(op, m)
}

// writesStackPointer reports whether rsp may be the destination. It includes some that only read it.
func (x *x86) writesStackPointer(op byte, m modRM) bool {
	direct := m.mod() == 3 && m.rm() == stackPointer && x.rex&1 == 0
	reg := m.reg() == stackPointer && x.rex&4 == 0
	switch kind := oneByte[op]; {
	case kind != xM && kind != xMByte && kind != xMWord:
		return false
	case op < 0x38 && op&1 == 1, op == 0x63, op == 0x69, op == 0x6b, op >= 0x87 && op <= 0x8d && op&1 == 1:
		return direct || reg
	case op == 0x81, op == 0x83:
		return direct && m.reg() != 7 // but for cmp
	case op == 0xc7, op == 0xf7 && m.reg() > 1, op == 0xff, op == 0xc1, op == 0xd1, op == 0xd3:
		return direct
	}
	return false
}

func (x *x86) twoByte(in *Instruction) {
	switch op := x.next(); {
	case op == 0x38:
		x.next()
		x.operands()
	case op == 0x3a:
		x.next()
		x.follow(xMByte)
	case op >= 0x80 && op <= 0x8f:
		in.Flow, in.Target = Jump, uint64(x.number(4)) //nolint:gosec // wraps as addresses do
	case op == 0xa0, op == 0xa1, op == 0xa8, op == 0xa9: // push and pop of fs and gs
		in.MovesStack = true
	default:
		m := x.follow(twoByte[op])
		move := op >= 0x40 && op <= 0x4f // conditional
		in.MovesStack = move && m.reg() == stackPointer && x.rex&4 == 0
	}
}

// vector decodes an instruction with a VEX or EVEX prefix: the prefix holds the number of the opcode map.
func (x *x86) vector(prefix byte) {
	table := byte(1)
	switch prefix {
	case 0xc4:
		table = x.next() & 0x1f
		x.skip(1)
	case 0xc5:
		x.skip(1)
	default:
		table = x.next() & 7
		x.skip(2)
	}
	op := x.next()
	switch {
	case table == 1:
		x.follow(twoByte[op])
	case table == 2 || prefix == 0x62 && (table == 5 || table == 6):
		x.operands()
	case table == 3:
		x.follow(xMByte)
	default:
		x.bad = true
	}
}
