// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"errors"
	"fmt"
)

// Call frame instructions, DWARF 5, section 7.24, and LSB Core 5.0, 10.6.2.
const (
	cfaAdvance         = 0x40 // these three with an operand in the low six bits
	cfaOffset          = 0x80
	cfaRestore         = 0xc0
	cfaNop             = 0x00
	cfaSetLoc          = 0x01
	cfaAdvance1        = 0x02
	cfaAdvance2        = 0x03
	cfaAdvance4        = 0x04
	cfaOffsetExtended  = 0x05
	cfaRestoreExtended = 0x06
	cfaUndefined       = 0x07
	cfaSameValue       = 0x08
	cfaRegister        = 0x09
	cfaRememberState   = 0x0a
	cfaRestoreState    = 0x0b
	cfaDefCFA          = 0x0c
	cfaDefCFARegister  = 0x0d
	cfaDefCFAOffset    = 0x0e
	cfaDefCFAExpr      = 0x0f
	cfaExpression      = 0x10
	cfaOffsetSF        = 0x11
	cfaDefCFASF        = 0x12
	cfaDefCFAOffsetSF  = 0x13
	cfaValOffset       = 0x14
	cfaValOffsetSF     = 0x15
	cfaValExpression   = 0x16
	cfaAdvance8        = 0x1d // DW_CFA_MIPS_advance_loc8
	cfaNegateRAPC      = 0x2c // DW_CFA_AARCH64_negate_ra_state_with_pc
	cfaNegateRA        = 0x2d // DW_CFA_AARCH64_negate_ra_state
	cfaArgsSize        = 0x2e // DW_CFA_GNU_args_size
	cfaNegativeOffset  = 0x2f // DW_CFA_GNU_negative_offset_extended
)

// maxRemembered is how deeply states are nested; compilers need one or two.
const maxRemembered = 32

var (
	errOpcode = errors.New("unknown call frame instruction")
	errNested = errors.New("states are remembered too deep, or restored without being remembered")
	errBack   = errors.New("location goes backwards")
)

// machine runs the call frame instructions of one function.
type machine struct {
	arch    *arch
	cie     *cie
	state   state
	initial state // what cfaRestore goes back to
	stack   []state
	loc     uint64  // address from which the state is valid
	end     uint64  // of the function
	out     *packer // nil in a CIE
	code    cursor
	codeEnd uint64 // virtual address
	data    uint64 // what data-relative pointers count from, or 0
}

// run executes instructions up to their end or the first that is wrong.
func (m *machine) run(code []byte) error {
	m.code = cursor{b: code}
	m.stack = m.stack[:0]
	for len(m.code.b) > 0 {
		op := m.code.u8()
		if err := m.step(op); err != nil {
			return fmt.Errorf("instruction %#x, %d bytes from the end: %w", op, len(m.code.b), err)
		}
		if m.code.bad {
			return fmt.Errorf("instruction %#x: %w", op, errShort)
		}
	}
	return nil
}

func (m *machine) step(op byte) error {
	c := &m.code
	switch low := uint64(op & 0x3f); op & 0xc0 {
	case cfaAdvance:
		return m.move(low)
	case cfaOffset:
		m.save(low, m.scaled(c.uleb()))
		return nil
	case cfaRestore:
		m.restore(low)
		return nil
	}
	switch op {
	case cfaNop, cfaNegateRA, cfaNegateRAPC: // pointer authentication is stripped elsewhere
	case cfaAdvance1:
		return m.move(uint64(c.u8()))
	case cfaAdvance2:
		return m.move(uint64(c.u16()))
	case cfaAdvance4:
		return m.move(uint64(c.u32()))
	case cfaAdvance8:
		return m.move(c.u64())
	case cfaSetLoc:
		return m.setLoc()
	case cfaRememberState, cfaRestoreState:
		return m.nest(op)
	case cfaArgsSize:
		c.uleb()
	case cfaDefCFA, cfaDefCFASF, cfaDefCFARegister, cfaDefCFAOffset, cfaDefCFAOffsetSF, cfaDefCFAExpr:
		m.defineCFA(op)
	default:
		return m.register(op)
	}
	return nil
}

// defineCFA executes the instructions that define the CFA.
func (m *machine) defineCFA(op byte) {
	c, s := &m.code, &m.state
	switch op {
	case cfaDefCFA:
		s.reg, s.off, s.by = c.uleb(), int64(c.uleb()), byRegister
	case cfaDefCFASF:
		s.reg, s.off, s.by = c.uleb(), c.sleb()*m.cie.dataAlign, byRegister
	case cfaDefCFARegister:
		s.reg, s.by = c.uleb(), byRegister
	case cfaDefCFAOffset:
		s.off = int64(c.uleb())
	case cfaDefCFAOffsetSF:
		s.off = c.sleb() * m.cie.dataAlign
	case cfaDefCFAExpr:
		s.setCFAExpression(c.take(c.uleb()), m.arch)
	}
}

// register executes the instructions that define where a register is saved.
func (m *machine) register(op byte) error {
	c := &m.code
	reg := c.uleb()
	switch op {
	case cfaOffsetExtended:
		m.save(reg, m.scaled(c.uleb()))
	case cfaOffsetSF:
		m.save(reg, c.sleb()*m.cie.dataAlign)
	case cfaNegativeOffset:
		m.save(reg, -m.scaled(c.uleb()))
	case cfaRestoreExtended:
		m.restore(reg)
	case cfaUndefined:
		m.set(reg, slot{kind: Undefined, set: true})
	case cfaSameValue:
		m.set(reg, slot{kind: Same, set: true})
	case cfaRegister:
		m.inRegister(reg, c.uleb())
	case cfaExpression:
		m.set(reg, m.lostReturn(reg, savedBy(c.take(c.uleb()), m.arch)))
	case cfaValExpression:
		c.take(c.uleb())
		m.set(reg, m.lostReturn(reg, slot{kind: Undefined, set: true}))
	case cfaValOffset:
		c.uleb()
		m.set(reg, m.lostReturn(reg, slot{kind: Undefined, set: true}))
	case cfaValOffsetSF:
		c.sleb()
		m.set(reg, m.lostReturn(reg, slot{kind: Undefined, set: true}))
	default:
		return errOpcode
	}
	return nil
}

// lostReturn makes a return address unknown that is saved in a way that no Rule can express; only cfaUndefined means that there is none.
func (m *machine) lostReturn(reg uint64, s slot) slot {
	if reg == m.arch.ra {
		return slot{kind: SavedAtFP, set: true}
	}
	return s
}

func (m *machine) inRegister(reg, other uint64) {
	if reg == other {
		m.set(reg, slot{kind: Same, set: true})
		return
	}
	m.set(reg, m.lostReturn(reg, slot{kind: Undefined, set: true}))
}

func (m *machine) scaled(factor uint64) int64 { return int64(factor) * m.cie.dataAlign }

func (m *machine) save(reg uint64, off int64) { m.set(reg, slot{kind: Saved, off: off, set: true}) }

func (m *machine) set(reg uint64, s slot) {
	switch reg {
	case m.arch.fp:
		m.state.fp = s
	case m.arch.ra:
		m.state.ra = s
	case m.arch.bx:
		m.state.bx = s
	}
}

func (m *machine) restore(reg uint64) {
	switch reg {
	case m.arch.fp:
		m.state.fp = m.initial.fp
	case m.arch.ra:
		m.state.ra = m.initial.ra
	case m.arch.bx:
		m.state.bx = m.initial.bx
	}
}

func (m *machine) nest(op byte) error {
	n := len(m.stack)
	if op == cfaRememberState {
		if n == maxRemembered {
			return errNested
		}
		m.stack = append(m.stack, m.state)
		return nil
	}
	if n == 0 {
		return errNested
	}
	m.state, m.stack = m.stack[n-1], m.stack[:n-1]
	return nil
}

func (m *machine) move(delta uint64) error {
	to := m.loc + delta*m.cie.codeAlign
	if to < m.loc {
		return errBack
	}
	m.goTo(to)
	return nil
}

func (m *machine) setLoc() error {
	to, err := m.code.pointer(m.cie.encoding, m.codeEnd-uint64(len(m.code.b)), m.data)
	if err != nil {
		return err
	}
	if to < m.loc {
		return errBack
	}
	m.goTo(to)
	return nil
}

func (m *machine) goTo(to uint64) {
	if m.out != nil && m.loc < min(to, m.end) {
		m.out.span(m.loc, min(to, m.end), m.state.rule(m.arch, m.cie.signal))
	}
	m.loc = to
}
