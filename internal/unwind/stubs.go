// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"encoding/binary"
)

// stubBytes is the size of a stub, and what its beginning is aligned to.
const stubBytes = 16

// stubKind is what an instruction of a stub does.
type stubKind uint8

const (
	stubPlain stubKind = iota
	stubPush           // 8 bytes
	stubPop            // 8 bytes
	stubJump           // to a fixed address: nothing follows
	stubJumpByTable
)

// known is an instruction by its first bytes.
type known struct {
	begin string
	size  int
	kind  stubKind
}

// stubCode lists the instructions that linkers write into the PLT of x86-64
// (GNU ld, gold, lld and mold) and C libraries into _init and _fini.
var stubCode = []known{
	{"\xf3\x0f\x1e\xfa", 4, stubPlain},          // endbr64
	{"\x68", 5, stubPush},                       // push imm32
	{"\xff\x35", 6, stubPush},                   // push [rip+disp32]
	{"\x50", 1, stubPush},                       // push rax
	{"\x58", 1, stubPop},                        // pop rax
	{"\x48\x83\xec\x08", 4, stubPush},           // sub rsp, 8
	{"\x48\x83\xc4\x08", 4, stubPop},            // add rsp, 8
	{"\x48\x8b\x05", 7, stubPlain},              // mov rax, [rip+disp32]
	{"\x48\xc7\xc0", 7, stubPlain},              // mov rax, imm32
	{"\x48\x85\xc0", 3, stubPlain},              // test rax, rax
	{"\x74", 2, stubPlain},                      // je rel8
	{"\xff\xd0", 2, stubPlain},                  // call rax
	{"\xff\x15", 6, stubPlain},                  // call [rip+disp32]
	{"\xe8", 5, stubPlain},                      // call rel32
	{"\xc3", 1, stubJump},                       // ret
	{"\x41\x53", 2, stubPush},                   // push r11
	{"\x41\xbb", 6, stubPlain},                  // mov r11d, imm32
	{"\xe9", 5, stubJump},                       // jmp rel32
	{"\xf2\xe9", 6, stubJump},                   // bnd jmp rel32
	{"\xff\x25", 6, stubJumpByTable},            // jmp [rip+disp32]
	{"\xf2\xff\x25", 7, stubJumpByTable},        // bnd jmp [rip+disp32]
	{"\x3e\xff\x25", 7, stubJumpByTable},        // notrack jmp [rip+disp32]
	{"\xcc", 1, stubPlain},                      // int3
	{"\x90", 1, stubPlain},                      // nop, and its longer forms
	{"\x66\x90", 2, stubPlain},                  //
	{"\x0f\x1f\x00", 3, stubPlain},              //
	{"\x0f\x1f\x40", 4, stubPlain},              //
	{"\x0f\x1f\x44\x00", 5, stubPlain},          //
	{"\x66\x0f\x1f\x44\x00", 6, stubPlain},      //
	{"\x0f\x1f\x80", 7, stubPlain},              //
	{"\x0f\x1f\x84\x00", 8, stubPlain},          //
	{"\x66\x0f\x1f\x84\x00", 9, stubPlain},      //
	{"\x66\x2e\x0f\x1f\x84", 10, stubPlain},     //
	{"\x2e\x66\x0f\x1f\x84", 10, stubPlain},     //
	{"\x66\x66\x2e\x0f\x1f\x84", 11, stubPlain}, //
}

// finishCode lists the instructions of GCC's __do_global_dtors_aux in addition to stubCode.
var finishCode = []known{
	{"\x80\x3d", 7, stubPlain},     // cmp byte [rip+disp32], imm8
	{"\x75", 2, stubPlain},         // jne rel8, to a ret
	{"\x55", 1, stubPush},          // push rbp
	{"\x5d", 1, stubPop},           // pop rbp
	{"\x48\x83\x3d", 8, stubPlain}, // cmp qword [rip+disp32], imm8
	{"\x48\x89\xe5", 3, stubPlain}, // mov rbp, rsp
	{"\x48\x8b\x3d", 7, stubPlain}, // mov rdi, [rip+disp32]
	{"\xc6\x05", 7, stubPlain},     // mov byte [rip+disp32], imm8
}

// finish returns the rules of __do_global_dtors_aux, if that begins at an address.
func (a *arch) finish(code []byte, at uint64) []ruleRange {
	begin := bytes.TrimPrefix(code, []byte("\xf3\x0f\x1e\xfa"))
	if !a.plt || !bytes.HasPrefix(begin, []byte("\x80\x3d")) {
		return nil
	}
	ranges := pushed(code, at, 8, 0, finishCode, stubCode)
	for i := range ranges { // it pushes the caller's rbp first
		if r := &ranges[i].rule; r.CFAOffset >= 16 {
			r.FP, r.FPOffset = Saved, -16
		}
	}
	return ranges
}

// stubs returns the rules of a section of stubs that begins at an address.
func (a *arch) stubs(code []byte, at uint64) []ruleRange {
	if a.plt {
		return stubsX86(code, at)
	}
	return stubsARM64(code, at)
}

// stubsX86 counts what stubs push. The others jump to the first one; if it pushes at once, they have pushed the index of the function
// already.
func stubsX86(code []byte, at uint64) []ruleRange {
	begins := int32(8)
	if bytes.HasPrefix(code, []byte("\xff\x35")) {
		begins += 8
	}
	return pushed(code, at, begins, stubBytes, stubCode)
}

// pushed counts what code pushes, from begins bytes on. After an unknown instruction it continues at the next multiple of align, or not at
// all when that is 0.
func pushed(code []byte, at uint64, begins int32, align int, lists ...[]known) []ruleRange {
	const called = 8
	var out []ruleRange
	pushed := begins
	put := func(from, to int, pushed int32) {
		out = appendRange(out, ruleRange{at + uint64(from), at + uint64(to), Rule{
			CFA: CFAStackPointer, CFAOffset: pushed, RA: Saved, RAOffset: -8,
		}})
	}
	for i := 0; i < len(code); {
		size, kind := instruction(code[i:], lists)
		if size == 0 && (pushed > called || align == 0) {
			return out // nothing more is known of the stack
		}
		if size == 0 { // continue at the next stub
			i, pushed = (i/align+1)*align, called
			continue
		}
		put(i, i+size, pushed)
		switch {
		case kind == stubPush:
			pushed += 8
		case kind == stubPop:
			pushed -= 8
		case kind == stubJump, kind == stubJumpByTable && pushed > called:
			pushed = called
		}
		i += size
	}
	return out
}

func instruction(code []byte, lists [][]known) (size int, kind stubKind) {
	for _, list := range lists {
		for _, known := range list {
			if len(code) >= known.size && string(code[:len(known.begin)]) == known.begin {
				return known.size, known.kind
			}
		}
	}
	return 0, stubPlain
}

// Instructions of stubs on arm64; the first one saves x16 and the link register.
const (
	stubSave   = 0xa9bf7bf0 // stp x16, x30, [sp, #-16]!
	stubBranch = 0xd61f0220 // br x17
)

func stubsARM64(code []byte, at uint64) []ruleRange {
	var out []ruleRange
	rule := Rule{CFA: CFAStackPointer}
	for i := 0; i+4 <= len(code); i += 4 {
		out = appendRange(out, ruleRange{at + uint64(i), at + uint64(i) + 4, rule})
		switch binary.LittleEndian.Uint32(code[i:]) {
		case stubSave:
			rule = Rule{CFA: CFAStackPointer, CFAOffset: 16, RA: Saved, RAOffset: -8}
		case stubBranch:
			rule = Rule{CFA: CFAStackPointer}
		}
	}
	return out
}

// appendRange merges two ranges if the second continues with the same rule.
func appendRange(list []ruleRange, p ruleRange) []ruleRange {
	if n := len(list); n > 0 && list[n-1].rule == p.rule && list[n-1].end == p.start {
		list[n-1].end = p.end
		return list
	}
	return append(list, p)
}
