// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseKernelFunction(t *testing.T) {
	const pc = 0xffffffff81000110
	for text, want := range map[string]Function{
		"do_one+0x10/0x100":                   {Name: "do_one", Start: pc - 0x10, Size: 0x100},
		"do_one+0x0/0x1":                      {Name: "do_one", Start: pc, Size: 1},
		"mod_fn+0x1f/0x20 [nf_tables]":        {Name: "mod_fn", Module: "nf_tables", Start: pc - 0x1f, Size: 0x20},
		"do.isra.0.cold+0x1/0x2":              {Name: "do.isra.0.cold", Start: pc - 1, Size: 2},
		"a+0x1/0x2+0x3/0x4":                   {Name: "a+0x1/0x2", Start: pc - 3, Size: 4},
		"__pi_memcpy+0x4/0x230":               {Name: "memcpy", Start: pc - 4, Size: 0x230},
		"bpf_prog_0123456789abcdef+0x10/0x7b": {Name: "bpf_prog_0123456789abcdef", Start: pc - 0x10, Size: 0x7b},
		"0xffffffff81000110":                  {},
		"":                                    {},
		"+0x0/0x10":                           {},
		"do_one":                              {},
		"do_one+0x":                           {},
		"do_one+0x10":                         {},
		"do_one+0x10/100":                     {},
		"do_one+0x100/0x100":                  {}, // behind its end
		"do_one+0xfffffffffffffff0/0xfffffffffffffffe": {}, // begins below 0
		"__pfx_do_one+0x0/0x10":                        {},
	} {
		require.Equal(t, want, parseKernelFunction(pc, []byte(text)), "%q", text)
	}
}

func TestIsBPF(t *testing.T) {
	text := Span{0xffffffff81000000, 0xffffffff82000000}
	const inside, outside = 0xffffffff81000100, 0xffffffffc0000100
	for _, c := range []struct {
		name          string
		start         uint64
		known, hidden bool
	}{
		{"bpf_prog_0123456789abcdef_probe", outside, true, true},
		{"bpf_prog_0123456789abcdef", outside, true, true},
		{"bpf_trampoline_6442536467", outside, true, true},
		{"bpf_dispatcher_xdp", outside, true, false},
		{"bpf__tcp_congestion_ops_init", outside, true, false},
		{"bpf_dispatcher_xdp_func", inside, false, false},
		{"bpf_prog_add", inside, false, false},
		{"bpf_prog_exit", outside, false, false},
		{"bpf_prog_array_free", inside, false, false},
		{"bpf_trampoline_link_prog", inside, false, false},
		{"init_one", outside, false, false},
	} {
		f := Function{Name: c.name, Start: c.start}
		require.Equal(t, c.known, isBPF(f, text), c.name)
		require.Equal(t, c.hidden, isBPF(f, Span{}), "%s where the kernel hides its addresses", c.name)
	}
}

func FuzzKernelFunction(f *testing.F) {
	f.Add(uint64(0xffffffff81000110), []byte("do_one+0x10/0x100"))
	f.Add(uint64(0xffffffff81000110), []byte("mod_fn+0x1f/0x20 [nf_tables]"))
	f.Add(uint64(1), []byte("x+0xffffffffffffffff/0xffffffffffffffff ["))
	f.Add(uint64(0), []byte("__pi_+0x0/0x1"))
	f.Fuzz(func(t *testing.T, pc uint64, text []byte) {
		got := parseKernelFunction(pc, text)
		if got.Size == 0 {
			require.Zero(t, got)
			return
		}
		require.LessOrEqual(t, got.Start, pc)
		require.Less(t, pc-got.Start, got.Size)
		isBPF(got, Span{})
	})
}
