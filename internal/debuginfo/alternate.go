// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"path"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const maxAltLink = 8 << 10

// alternateOf finds the file to which dwz moved common parts: .gnu_debugaltlink, a path and a build id, or .debug_sup of DWARF 5, 7.3.6.
func alternateOf(f *elfimage.File, sections []elfimage.Section) (name, id string, ok bool) {
	if s := f.SectionNamed(sections, ".gnu_debugaltlink"); s != nil && s.Size <= maxAltLink {
		b := make([]byte, s.Size)
		if f.Read(b, s.Off) == nil {
			if text, rest, found := bytes.Cut(b, []byte{0}); found {
				return string(text), hex.EncodeToString(rest), true
			}
		}
	}
	s := f.SectionNamed(sections, ".debug_sup")
	if s == nil || s.Size > maxAltLink || !f.Has(s.Off, s.Size) {
		return "", "", false
	}
	c := (&section{elfimage.Image{Src: f.Src, Size: s.Off + s.Size}, ".debug_sup"}).at(s.Off, s.Off+s.Size, make([]byte, maxAltLink))
	c.u16() // version
	supplementary := c.u8()
	name = c.text()
	size := c.uleb()
	if c.err != nil || supplementary != 0 || !c.need(int(min(size, maxAltLink))) {
		return "", "", false
	}
	return name, hex.EncodeToString(c.b[:size]), true
}

// openAlternate opens the common file. It is searched by its path, which may be relative to the folder of the file that names it, and by its
// build id.
func openAlternate(name, id, from string, open func(string) (File, error), x *inflater) (*object, func() error, error) {
	if !path.IsAbs(name) {
		name = path.Join(path.Dir(from), name)
	}
	places := []string{name}
	if len(id) > 4 {
		places = append(places, BuildIDPath(id))
	}
	errs := []error{errNoAlternate}
	for _, p := range places {
		if !path.IsAbs(p) {
			continue
		}
		file, err := open(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		o, err := readAlternate(file, id, x)
		if err == nil {
			return o, file.Close, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p, err), file.Close())
	}
	return nil, nil, errors.Join(errs...)
}

func readAlternate(file File, id string, x *inflater) (*object, error) {
	f, sections, err := parse(file.Image)
	if err != nil {
		return nil, err
	}
	if got := BuildID(f); got != id && id != "" && got != "" {
		return nil, fmt.Errorf("its build id is %q, not %q: %w", got, id, errOtherFile)
	}
	return readObject(f, sections, x, "")
}
