// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package bindings

import (
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
)

const (
	// mostStack is how many bytes a program and those that it calls may have on their stacks together: MAX_BPF_STACK of
	// include/linux/filter.h. Verifiers count so wherever there are calls.
	mostStack = 512
	// stackUnit is what the stack of each is rounded up to.
	stackUnit = 32
)

// TestStacksFit holds that no way through a program needs more of the stack than there is, as verifiers have it that count in
// units: the running one may count less.
func TestStacksFit(t *testing.T) {
	for _, room := range []string{"process", "oncpu", "offcpu", "memorymalloc", "memoryfaults", "network", "networkcapture"} {
		for name, program := range embedded(t, room).Programs {
			functions := stacks(program.Instructions)
			require.LessOrEqual(t, functions.deepest(program.Name), mostStack, "%s: %s", room, name)
		}
	}
}

// stack is what a function has on its stack, in bytes, and what it calls.
type stack struct {
	bytes int
	calls []string
}

type stackOf map[string]*stack

// deepest is the most that a function and all that it calls have on their stacks together. None calls itself.
func (s stackOf) deepest(name string) int {
	below := 0
	for _, called := range s[name].calls {
		below = max(below, s.deepest(called))
	}
	return (max(s[name].bytes, 1)+stackUnit-1)/stackUnit*stackUnit + below
}

// stacks finds the functions of a program, and how far below its frame each reaches: by loads and stores, and by addresses
// that are made of the frame's.
func stacks(instructions asm.Instructions) stackOf {
	all := stackOf{}
	var in *stack
	var frame [asm.R10 + 1]bool // registers that have its address
	for i := range instructions {
		ins := &instructions[i]
		if name := ins.Symbol(); name != "" {
			in, frame = &stack{}, [asm.R10 + 1]bool{}
			all[name] = in
		}
		reached, ofFrame := int64(0), false
		switch class := ins.OpCode.Class(); {
		case class.IsStore():
			if ins.Dst == asm.R10 {
				reached = int64(ins.Offset)
			}
			ofFrame = frame[ins.Dst] // it stays what it is
		case class == asm.LdXClass && ins.Src == asm.R10:
			reached = int64(ins.Offset)
		case class == asm.ALU64Class && ins.OpCode.ALUOp() == asm.Mov:
			ofFrame = ins.OpCode.Source() == asm.RegSource && ins.Src == asm.R10
		case class == asm.ALU64Class && ins.OpCode.ALUOp() == asm.Add && ins.OpCode.Source() == asm.ImmSource && frame[ins.Dst]:
			reached = ins.Constant
		}
		frame[ins.Dst] = ofFrame
		if reached < 0 {
			in.bytes = max(in.bytes, int(-reached))
		}
		if called := ins.Reference(); called != "" && (ins.IsFunctionCall() || ins.IsFunctionReference()) {
			in.calls = append(in.calls, called)
		}
	}
	return all
}
