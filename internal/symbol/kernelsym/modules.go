// SPDX-License-Identifier: Apache-2.0

package kernelsym

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
)

// Span is a range of the kernel's addresses.
type Span struct{ Start, End uint64 }

func (s Span) contains(addr uint64) bool { return addr >= s.Start && addr < s.End }

// parseModules reads /proc/modules: NAME SIZE REFERENCES USERS STATE ADDRESS
// and perhaps taints. Hidden addresses are zero; such modules are left out.
func parseModules(b []byte) (map[string]Span, error) {
	out := make(map[string]Span)
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte{'\n'})
		f := bytes.Fields(line)
		if len(f) < 6 {
			return nil, fmt.Errorf("parsing %q: want six fields", proc.Clip(line))
		}
		size, err := strconv.ParseUint(string(f[1]), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("parsing %q: size: %w", proc.Clip(line), err)
		}
		base, ok := proc.ParseHex(bytes.TrimPrefix(f[5], []byte("0x")))
		if !ok {
			return nil, fmt.Errorf("parsing %q: address", proc.Clip(line))
		}
		if base != 0 && base+size > base && len(out) < maxModules {
			out[string(f[0])] = Span{base, base + size}
		}
	}
	return out, nil
}
