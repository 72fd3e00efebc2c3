// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// Opcodes of line programs; DWARF 5, 6.2.5.
const (
	lnsCopy             = 1
	lnsAdvancePC        = 2
	lnsAdvanceLine      = 3
	lnsSetFile          = 4
	lnsConstAddPC       = 8
	lnsFixedAdvancePC   = 9
	lneEndSequence      = 1
	lneSetAddress       = 2
	maxExtendedOperands = 1 << 20
)

// noFile is the file of the row that ends a sequence.
const noFile = math.MaxUint32

const rowBytes = 12

// row is the line of the code from an address on.
type row struct {
	addr uint32 // from the start of the text
	line uint32
	file uint32 // number in the unit's table, or noFile
}

// lineProgram runs a line program and collects its rows.
type lineProgram struct {
	*lineHeader
	c          cursor
	text       elfimage.Span
	limit      int // rows
	rows       []row
	unsorted   bool
	addr       uint64
	op         uint64
	file, line uint32
	first      int  // where in rows the sequence begins, -1 before its first row
	dropped    bool // the sequence is of code that the linker dropped
}

// readRows runs the line program of a unit and puts its rows into the given memory. They are sorted by address; a row that repeats the
// previous one is left out.
func readRows(u *unit, text elfimage.Span, rows []row, limit int, window []byte) (*lineHeader, []row, error) {
	h, err := readLineHeader(u)
	if err != nil {
		return nil, rows, err
	}
	p := &lineProgram{lineHeader: h, c: h.unit.obj.line.at(h.program, h.end, window), text: text, rows: rows[:0], limit: limit}
	p.reset()
	for p.c.left() > 0 && p.c.err == nil {
		p.step()
	}
	if p.c.err != nil {
		return nil, p.rows, p.c.err
	}
	p.endSequence() // a sequence without an end
	if p.unsorted {
		slices.SortStableFunc(p.rows, func(x, y row) int {
			if x.addr == y.addr && (x.file == noFile) != (y.file == noFile) {
				if x.file == noFile {
					return -1
				}
				return 1
			}
			return cmp.Compare(x.addr, y.addr)
		})
	}
	return h, p.rows, nil
}

func (p *lineProgram) reset() {
	p.addr, p.op, p.file, p.line, p.first, p.dropped = 0, 0, 1, 1, -1, false
}

func (p *lineProgram) advance(by uint64) {
	if p.maxOperations == 1 {
		p.addr += by * uint64(p.minInstruction)
		return
	}
	by += p.op
	p.addr += by / uint64(p.maxOperations) * uint64(p.minInstruction)
	p.op = by % uint64(p.maxOperations)
}

// step executes one instruction.
func (p *lineProgram) step() {
	op := p.c.u8()
	if op >= p.opcodeBase {
		op -= p.opcodeBase
		p.advance(uint64(op / p.lineRange))
		p.line += uint32(int32(p.lineBase) + int32(op%p.lineRange))
		p.emit(p.file)
		return
	}
	switch op {
	case 0:
		p.extended()
	case lnsCopy:
		p.emit(p.file)
	case lnsAdvancePC:
		p.advance(p.c.uleb())
	case lnsAdvanceLine:
		p.line += uint32(p.c.sleb())
	case lnsSetFile:
		p.file = uint32(min(p.c.uleb(), noFile-1))
	case lnsConstAddPC:
		p.advance(uint64((255 - p.opcodeBase) / p.lineRange))
	case lnsFixedAdvancePC:
		p.addr, p.op = p.addr+uint64(p.c.u16()), 0
	default: // flags, columns and unknown opcodes
		for range p.operands[op] {
			p.c.skipLEB()
		}
	}
}

func (p *lineProgram) extended() {
	size := p.c.uleb()
	if size == 0 || size > maxExtendedOperands {
		p.c.fail(fmt.Errorf("instruction of %d bytes", size))
		return
	}
	switch op := p.c.u8(); {
	case op == lneEndSequence:
		p.endSequence()
		p.c.skip(size - 1)
	case op == lneSetAddress && (size == 9 || size == 5):
		p.addr, p.op = p.c.fixed(int(size-1)), 0
	default:
		p.c.skip(size - 1)
	}
}

// emit appends a row for the current state.
func (p *lineProgram) emit(file uint32) {
	if p.dropped {
		return
	}
	if p.addr < p.text.Start || p.addr >= p.text.End || p.addr-p.text.Start > math.MaxUint32 {
		p.dropped = p.first < 0
		return
	}
	r := row{uint32(p.addr - p.text.Start), p.line, file}
	if p.first < 0 {
		p.first = len(p.rows)
		p.unsorted = p.unsorted || p.first > 0 && p.rows[p.first-1].addr > r.addr
	} else if last := &p.rows[len(p.rows)-1]; last.file == file && last.line == r.line {
		return
	} else if last.addr == r.addr {
		*last = r
		return
	} else if last.addr > r.addr {
		p.unsorted = true
	}
	if len(p.rows) == p.limit {
		p.c.fail(fmt.Errorf("%d rows: %w", p.limit, ErrTooLarge))
		return
	}
	p.rows = append(p.rows, r)
}

func (p *lineProgram) endSequence() {
	if p.first >= 0 {
		// The end may be the end of the text itself.
		end := uint32(min(p.addr-p.text.Start, math.MaxUint32))
		if p.addr < p.text.Start || len(p.rows) > 0 && end < p.rows[len(p.rows)-1].addr {
			end = p.rows[len(p.rows)-1].addr
		}
		p.rows = append(p.rows, row{addr: end, file: noFile})
	}
	p.reset()
}

// rowAt returns the row that contains an address, nil when there is none.
func rowAt(rows []row, addr uint32) *row {
	i, _ := slices.BinarySearchFunc(rows, addr, func(r row, a uint32) int {
		if r.addr <= a {
			return -1
		}
		return 1
	})
	if i == 0 || rows[i-1].file == noFile {
		return nil
	}
	return &rows[i-1]
}
