// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func TestFoldTellsPositionsInTheSource(t *testing.T) {
	p := roundTrip(t, newTestBuilder().Profiles([]*model.Profile{full()}))
	const file = "/usr/bin/checkout"
	require.NoError(t, Fold(p, func(s FoldedSample) error {
		if len(s.Stack) == 0 {
			require.Equal(t, model.StackFault, s.StackError())
			return nil
		}
		require.Equal(t, model.StackCut, s.StackError())
		require.Equal(t, []FoldedFrame{
			{Mapping: file, Address: 0x2000, Type: "native"},
			{Function: "main.outer", Mapping: file, Address: 0x1234, Type: "go", Filename: "/src/main.go", Line: 12},
			{Function: "main.inner", Mapping: file, Address: 0x1234, Type: "go", Filename: "/src/main.go", Line: 5, Inlined: true},
			{Function: "do_syscall_64", Address: 0xffff, Type: "kernel"},
		}, s.Stack)
		return nil
	}))
}

func TestLabel(t *testing.T) {
	for want, f := range map[string]FoldedFrame{
		"main [stripped] a": {Function: "main [stripped]", Mapping: "/bin/a", Type: "native"},
		"[stripped] a":      {Mapping: "/bin/a", Type: "native"},
		"[unnamed] [vdso]":  {Mapping: "[vdso]", Type: "native"},
		"[unnamed] kernel":  {Type: "kernel"},
		"[unnamed] ?":       {},
		"[jit] ?":           {Type: "native"},
	} {
		require.Equal(t, want, f.Label(model.StackCut)+" "+f.Binary())
	}
	require.Equal(t, "[not mapped]", FoldedFrame{Type: "native"}.Label(model.StackNoMappings))
	require.Equal(t, "[stripped]", FoldedFrame{Type: "native", Mapping: "a"}.Label(model.StackNoMappings))
}
