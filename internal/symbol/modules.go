// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"fmt"
	"strconv"
)

// span is a range of the kernel's addresses.
type span struct{ start, end uint64 }

func (s span) contains(addr uint64) bool { return addr >= s.start && addr < s.end }

// parseModules reads /proc/modules: NAME SIZE REFERENCES USERS STATE ADDRESS
// and perhaps taints. Hidden addresses are zero; such modules are left out.
func parseModules(b []byte) (map[string]span, error) {
	out := make(map[string]span)
	for len(b) > 0 {
		var line []byte
		line, b, _ = bytes.Cut(b, []byte{'\n'})
		f := bytes.Fields(line)
		if len(f) < 6 {
			return nil, fmt.Errorf("parsing %q: want six fields", clip(line))
		}
		size, err := strconv.ParseUint(string(f[1]), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("parsing %q: size: %w", clip(line), err)
		}
		base, ok := parseHex(bytes.TrimPrefix(f[5], []byte("0x")))
		if !ok {
			return nil, fmt.Errorf("parsing %q: address", clip(line))
		}
		if base != 0 && base+size > base && len(out) < maxModules {
			out[string(f[0])] = span{base, base + size}
		}
	}
	return out, nil
}
