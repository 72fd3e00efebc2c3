// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// mapEntry is one line of /proc/PID/maps, see proc_pid_maps(5).
type mapEntry struct {
	start, end uint64
	offset     uint64 // in the file
	dev, ino   uint64 // dev as makedev(3) gives it; ino is 0 without a file
	executable bool
	path       string // unescaped; may end in " (deleted)"
	whole      bool   // that is how the file is called, not what the kernel says of it
}

const deletedSuffix = " (deleted)"

// name is the path without the kernel's remark that it was unlinked.
func (e *mapEntry) name() string {
	if e.whole {
		return e.path
	}
	return strings.TrimSuffix(e.path, deletedSuffix)
}

// parseMapLine parses one line without its newline. The path is only copied
// from executable mappings, since no others are of use here.
func parseMapLine(line []byte) (mapEntry, error) {
	var e mapEntry
	rest := line
	ok := true
	take := func(sep byte) []byte {
		i := bytes.IndexByte(rest, sep)
		if i < 0 {
			ok = false
			return nil
		}
		field := rest[:i]
		rest = rest[i+1:]
		return field
	}
	hex := func(field []byte) uint64 {
		v, good := parseHex(field)
		ok = ok && good
		return v
	}
	e.start = hex(take('-'))
	e.end = hex(take(' '))
	perms := take(' ')
	e.offset = hex(take(' '))
	major := hex(take(':'))
	minor := hex(take(' '))
	if !ok || len(perms) != 4 || e.end <= e.start {
		return mapEntry{}, fmt.Errorf("parsing maps line %q: want START-END PERMS OFFSET MAJOR:MINOR INODE PATH", clip(line))
	}
	ino, path, _ := bytes.Cut(rest, []byte{' '})
	var err error
	if e.ino, err = strconv.ParseUint(string(ino), 10, 64); err != nil {
		return mapEntry{}, fmt.Errorf("parsing maps line %q: inode: %w", clip(line), err)
	}
	e.dev = makedev(major, minor)
	if e.executable = perms[2] == 'x'; e.executable {
		e.path = strings.ReplaceAll(string(bytes.TrimLeft(path, " ")), `\012`, "\n")
	}
	return e, nil
}

// makedev joins major and minor as the C library and the kernel's stat do.
func makedev(major, minor uint64) uint64 {
	return (major&0xfff)<<8 | (major&^0xfff)<<32 | minor&0xff | (minor&^0xff)<<12
}

// parseHex parses up to 16 hexadecimal digits.
func parseHex(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 16 {
		return 0, false
	}
	var v uint64
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | uint64(c)
	}
	return v, true
}

// clip shortens foreign text for an error.
func clip(b []byte) []byte { return b[:min(len(b), 120)] }
