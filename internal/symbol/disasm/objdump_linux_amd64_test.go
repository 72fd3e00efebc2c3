// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"encoding/hex"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/toolchain"
)

// TestDecodeX86Objdump compares the decoder with objdump on the C library.
func TestDecodeX86Objdump(t *testing.T) {
	path := strings.TrimSpace(toolchain.Run(t, "gcc", "-print-file-name=libc.so.6"))
	require.True(t, filepath.IsAbs(path), "the C library of this machine")
	moves := regexp.MustCompile(`^(push|pop|leave|enter|(add|sub|and|or|mov|lea|inc|dec|xchg)[lq]? .*%rsp$)`)
	listing := toolchain.Run(t, "objdump", "-d", "-w", "--insn-width=15", "-j", ".text", path)
	checked, kinds := 0, map[Flow]int{}
	for i, line := range strings.Split(listing, "\n") {
		if i%4 != 0 {
			continue // a quarter is plenty
		}
		field := strings.Split(line, "\t")
		if len(field) != 3 || strings.Contains(line, "(bad)") || strings.HasSuffix(field[0], ">:") {
			continue
		}
		at, err := strconv.ParseUint(strings.Trim(field[0], " :"), 16, 64)
		require.NoError(t, err, line)
		code, err := hex.DecodeString(strings.ReplaceAll(field[1], " ", ""))
		require.NoError(t, err, line)
		text := strings.TrimSpace(field[2])
		for _, prefix := range []string{"bnd ", "notrack ", "rex.W ", "data16 ", "cs ", "lock "} {
			text = strings.TrimPrefix(text, prefix)
		}
		if len(code) == 1 && code[0]&0xf0 == 0x40 || text == "fwait" {
			continue // data within the code
		}
		in := decodeX86(append(code, 0xcc, 0xcc, 0xcc, 0xcc), at)
		require.Equal(t, len(code), in.Size, line)
		if moves.MatchString(text) {
			require.True(t, in.MovesStack, line)
		}
		require.Equal(t, flowOf(t, text, &in), in.Flow, line)
		checked++
		kinds[in.Flow]++
	}
	t.Log(checked, kinds)
	require.Greater(t, checked, 20000)
	require.Len(t, kinds, 5)
}

// flowOf reads objdump's text, and compares the target.
func flowOf(t *testing.T, text string, in *Instruction) Flow {
	op, operand, _ := strings.Cut(text, " ")
	operand = strings.TrimLeft(operand, " ")
	f := Onward
	switch {
	case op == "call" || op == "callq":
		f = Call
	case strings.HasPrefix(op, "j"), strings.HasPrefix(op, "loop"):
		f = Jump
	default:
		return Onward
	}
	if strings.HasPrefix(operand, "*") {
		return f + 1
	}
	target, err := strconv.ParseUint(strings.Fields(operand)[0], 16, 64)
	require.NoError(t, err, text)
	require.Equal(t, target, in.Target, text)
	return f
}
