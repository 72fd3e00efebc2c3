// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const (
	debugDir = "/usr/lib/debug"
	maxNotes = 64 << 10
	maxCRC   = 4 << 30 // bytes of a debug file that are read to compare its checksum
)

var errOtherFile = errors.New("belongs to another binary")

// Separate finds and opens the separate debug file of a binary: by its build id, or by .gnu_debuglink. The error wraps [ErrNone] when
// there is none. What open is given are absolute paths.
func Separate(m elfimage.Image, binary string, open func(path string) (File, error)) (File, string, error) {
	f, sections, err := parse(m)
	if err != nil {
		return File{}, "", err
	}
	id := BuildID(f)
	var errs []error
	for _, p := range debugPlaces(f, sections, id, binary) {
		file, err := open(p.path)
		if err != nil {
			continue // most places are empty
		}
		if err = p.check(file.Image, f); err == nil {
			return file, p.path, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.path, err), file.Close())
	}
	return File{}, "", errors.Join(append(errs, fmt.Errorf("separate debug file: %w", ErrNone))...)
}

// debugPlace is where a debug file may be, and how to know it.
type debugPlace struct {
	path string
	id   string // its build id, or empty
	crc  uint32 // of the whole file, where there is no build id
}

// BuildIDPath is where the debug file of a build id is, below each root; see the manual of GDB, Separate Debug Files.
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

// check tells whether a file is the debug file that is meant.
func (p debugPlace) check(m elfimage.Image, binary *elfimage.File) error {
	f, err := elfimage.Parse(m)
	if err != nil {
		return err
	}
	if f.Machine != binary.Machine || f.Is64 != binary.Is64 {
		return fmt.Errorf("%v: %w", f.Machine, errOtherFile)
	}
	if p.id != "" {
		if id := BuildID(f); id != p.id {
			return fmt.Errorf("its build id is %q, not %q: %w", id, p.id, errOtherFile)
		}
		return nil
	}
	if m.Size > maxCRC {
		return fmt.Errorf("%d bytes: %w", m.Size, ErrTooLarge)
	}
	sum := crc32.NewIEEE()
	if _, err := io.CopyBuffer(sum, io.NewSectionReader(m.Src, 0, int64(m.Size)), make([]byte, 256<<10)); err != nil { //nolint:gosec // below maxCRC
		return err
	}
	if sum.Sum32() != p.crc {
		return fmt.Errorf("its checksum is %08x, not %08x: %w", sum.Sum32(), p.crc, errOtherFile)
	}
	return nil
}

// BuildID reads the note NT_GNU_BUILD_ID, by sections where there are any, since the segments of a debug file are empty. It is empty
// when there is none.
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
