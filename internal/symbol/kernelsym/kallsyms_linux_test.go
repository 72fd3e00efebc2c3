// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/kernelsym/ksymtest"
)

func TestParseKallsymsErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "no symbols at all",
		"garbage\n":                        "want ADDRESS TYPE NAME",
		"zzzz T name\n":                    "address",
		"ffffffff81000000 T cut":           "has no end",
		strings.Repeat("x", 70<<10) + "\n": "has more than",
		"00000000 T a\n00000000 T b\n":     errHidden.Error(),
	} {
		_, err := parseKallsyms(strings.NewReader(text), 0, 0)
		require.ErrorContains(t, err, want)
	}
}

func FuzzKallsyms(f *testing.F) {
	f.Add(ksymtest.Kallsyms, uint64(0xffffffff81000110))
	f.Add("ffffffff81000000 t a\n0000000000000001 t b\t[m]\nffffffffffffffff W c\t[bpf]\n", uint64(1))
	f.Add("ffffffffffffffff T _etext\n1 t \t[]\n1 t x\n", uint64(1)<<63)
	f.Fuzz(func(t *testing.T, text string, addr uint64) {
		table, err := parseKallsyms(strings.NewReader(text), 0, 0)
		if err != nil {
			return
		}
		table.settle(map[string]Span{"m": {0, 1 << 40}})
		if i := table.find(addr); i >= 0 {
			require.LessOrEqual(t, table.symbols[i].addr, addr)
			table.nameAt(table.symbols[i].name)
			table.ownerOf(i)
		}
	})
}

func FuzzModules(f *testing.F) {
	f.Add([]byte("nf_tables 4096 1 - Live 0xffffffffc0100000 (OE)\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		modules, err := parseModules(b)
		if err != nil {
			return
		}
		for _, m := range modules {
			require.Less(t, m.Start, m.End)
		}
	})
}
