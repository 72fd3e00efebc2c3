// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const (
	debugDir = "/usr/lib/debug"
	maxNotes = 64 << 10
)

var errOtherFile = errors.New("belongs to another binary")

// debugPlace is where a debug file may be, and how to identify it.
type debugPlace struct {
	path string
	id   string // its build id, or empty
	crc  uint32 // of the whole file, if there is no build id
}

// BuildIDPath is the path of the debug file of a build id, below each root; see the manual of GDB, Separate Debug Files.
func BuildIDPath(id string) string {
	return path.Join(debugDir, ".build-id", id[:2], id[2:]+".debug")
}

func debugPlaces(f *elfimage.File, sections []elfimage.Section, id, binary string) []debugPlace {
	var out []debugPlace
	if len(id) > 4 {
		out = append(out, debugPlace{path: BuildIDPath(id), id: id})
	}
	name, crc, ok := debugLink(f, sections)
	if !ok || !path.IsAbs(binary) {
		return out
	}
	dir := path.Dir(binary)
	for _, p := range []string{path.Join(dir, name), path.Join(dir, ".debug", name), path.Join(debugDir, dir, name)} {
		if p != binary {
			out = append(out, debugPlace{p, id, crc})
		}
	}
	return out
}

// debugLink reads .gnu_debuglink: a file name, padding to four bytes, the CRC-32 of that file.
func debugLink(f *elfimage.File, sections []elfimage.Section) (name string, crc uint32, ok bool) {
	s := f.SectionNamed(sections, ".gnu_debuglink")
	if s == nil || s.Size > 4096 {
		return "", 0, false
	}
	b := make([]byte, s.Size)
	if f.Read(b, s.Off) != nil {
		return "", 0, false
	}
	name, _, ok = strings.Cut(string(b), "\x00")
	at := (len(name) + 4) &^ 3
	if !ok || at+4 > len(b) || name == "" || strings.ContainsRune(name, '/') || name == "." || name == ".." {
		return "", 0, false
	}
	return name, le.Uint32(b[at:]), true
}

// check reports whether a file is the wanted debug file; sum is what is left to compare, nil for nothing.
func (p debugPlace) check(m elfimage.Image, binary *elfimage.File) (sum *checksum, err error) {
	f, err := elfimage.Parse(m)
	if err != nil {
		return nil, err
	}
	if f.Machine != binary.Machine || f.Is64 != binary.Is64 {
		return nil, fmt.Errorf("%v: %w", f.Machine, errOtherFile)
	}
	if p.id != "" {
		if id := BuildID(f); id != p.id {
			return nil, fmt.Errorf("its build id is %q, not %q: %w", id, p.id, errOtherFile)
		}
		return nil, nil //nolint:nilnil // nothing is left
	}
	return &checksum{m: m, want: p.crc}, nil
}

// BuildID reads the note NT_GNU_BUILD_ID, by sections if there are any, since the segments of a debug file are empty. It is empty when there
// is none.
func BuildID(f *elfimage.File) string {
	var out string
	sections, err := f.Sections()
	if err == nil {
		for _, s := range sections {
			if s.Type == elf.SHT_NOTE && out == "" {
				out = noteID(f, s.Off, s.Size)
			}
		}
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_NOTE && out == "" {
			out = noteID(f, p.Off, p.Filesz)
		}
	}
	return out
}

func noteID(f *elfimage.File, off, size uint64) string {
	b := make([]byte, min(size, maxNotes))
	if f.Read(b, off) != nil {
		return ""
	}
	for len(b) >= 12 {
		name, desc, kind := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), le.Uint32(b[8:])
		b = b[12:]
		at := (name + 3) &^ 3
		if at+desc > uint64(len(b)) {
			return ""
		}
		if kind == 3 && string(b[:name]) == "GNU\x00" && desc >= 4 && desc <= 64 {
			return hex.EncodeToString(b[at : at+desc])
		}
		b = b[min(at+(desc+3)&^3, uint64(len(b))):]
	}
	return ""
}
