// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"errors"
	"fmt"
	"strings"
)

var (
	errNotCIE       = errors.New("no common information entry there")
	errAugmentation = errors.New("augmentation not supported")
	errVersion      = errors.New("version not supported")
)

// cie is a common information entry: what several functions share.
type cie struct {
	codeAlign  uint64
	dataAlign  int64
	encoding   byte // of the addresses of functions
	signal     bool // the functions are signal trampolines
	augmented  bool // entries of functions have augmentation data, too
	initial    state
	usable     bool // the return address is in the expected register
	segmentLen uint64
}

// parseCIE reads the body of an entry, which begins after its id; at is its
// virtual address.
func (s *section) parseCIE(body []byte, at uint64) (*cie, error) {
	out := &cie{encoding: peAbsolute}
	c := cursor{b: body}
	version := c.u8()
	augmentation := c.text()
	if version != 1 && version != 3 && (version != 4 || s.eh) {
		return nil, fmt.Errorf("%d: %w", version, errVersion)
	}
	if version == 4 {
		if size := c.u8(); size != 8 {
			return nil, fmt.Errorf("addresses of %d bytes: %w", size, errVersion)
		}
		out.segmentLen = uint64(c.u8())
	}
	if augmentation == "eh" { // GCC 2: a pointer to exception data
		c.u64()
		augmentation = ""
	}
	out.codeAlign, out.dataAlign = c.uleb(), c.sleb()
	ra := uint64(0)
	if version == 1 {
		ra = uint64(c.u8())
	} else {
		ra = c.uleb()
	}
	out.usable = ra == s.arch.ra
	if err := s.augment(out, &c, augmentation, at+uint64(len(body))); err != nil {
		return nil, err
	}
	if c.bad {
		return nil, errShort
	}
	m := machine{arch: s.arch, cie: out}
	if err := m.run(c.b); err != nil {
		return nil, err
	}
	out.initial = m.state
	return out, nil
}

// augment reads the augmentation of an entry that ends at the address end.
func (s *section) augment(out *cie, c *cursor, augmentation string, end uint64) error {
	letters, sized := strings.CutPrefix(augmentation, "z")
	if !sized {
		if strings.Trim(augmentation, "S") != "" {
			return fmt.Errorf("%.16q: %w", augmentation, errAugmentation)
		}
		out.signal = augmentation != ""
		return nil
	}
	out.augmented = true
	data := cursor{b: c.take(c.uleb())}
	end -= uint64(len(c.b))
	for _, letter := range []byte(letters) {
		switch letter {
		case 'L':
			data.u8()
		case 'R':
			out.encoding = data.u8()
		case 'P':
			s.skipPersonality(&data, end)
		case 'S':
			out.signal = true
		case 'B', 'G': // signs with the B key, tags memory: arm64
		default:
			return nil // what follows is unknown, but of known size
		}
	}
	if data.bad {
		return errShort
	}
	return nil
}

// skipPersonality skips a pointer whose value does not matter, and that may be
// indirect or aligned; the augmentation data end at the address end.
func (s *section) skipPersonality(data *cursor, end uint64) {
	const aligned = 0x50
	encoding := data.u8()
	if encoding == aligned {
		data.take(-(end - uint64(len(data.b))) & 7)
		data.u64()
		return
	}
	if encoding == peOmit {
		return
	}
	if _, err := data.value(encoding & peFormat); err != nil {
		data.bad = true
	}
}
