// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	"debug/elf"
	"fmt"
)

const maxDynamic = 4096 // entries of a dynamic section

// Dynamic holds the entries of PT_DYNAMIC, of equal tags the last one.
type Dynamic map[elf.DynTag]uint64

// ReadDynamic reads PT_DYNAMIC, which replaces section headers if those were stripped. It is empty when there is none.
func ReadDynamic(f *File) (Dynamic, error) {
	out := Dynamic{}
	for _, p := range f.Progs {
		if p.Type != elf.PT_DYNAMIC {
			continue
		}
		unit := f.Pick(16, 8)
		b := make([]byte, min(p.Filesz, uint64(unit*maxDynamic))/uint64(unit)*uint64(unit))
		if err := f.Read(b, p.Off); err != nil {
			return nil, fmt.Errorf("dynamic section: %w", err)
		}
		for ; len(b) > 0; b = b[unit:] {
			tag := elf.DynTag(f.Word(b))
			if tag == elf.DT_NULL {
				break
			}
			out[tag] = f.Word(b[unit/2:])
		}
	}
	return out, nil
}
