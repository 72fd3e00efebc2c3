// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
)

// mapEntry is one line of /proc/PID/maps, see proc_pid_maps(5).
type mapEntry struct {
	start, end uint64
	offset     uint64 // in the file
	dev, ino   uint64 // dev as makedev(3) returns it; ino is 0 without a file
	executable bool
	path       string // unescaped; may end in " (deleted)"
	whole      bool   // path is the file's name, without a suffix of the kernel
}

const deletedSuffix = " (deleted)"

// name is the path without the suffix that marks an unlinked file.
func (e *mapEntry) name() string {
	if e.whole {
		return e.path
	}
	return strings.TrimSuffix(e.path, deletedSuffix)
}

// parseMapLine parses one line without its newline. The path is only copied from executable mappings, since no others are used.
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
		v, good := proc.ParseHex(field)
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
		return mapEntry{}, fmt.Errorf("parsing maps line %q: want START-END PERMS OFFSET MAJOR:MINOR INODE PATH", proc.Clip(line))
	}
	ino, path, _ := bytes.Cut(rest, []byte{' '})
	var err error
	if e.ino, err = strconv.ParseUint(string(ino), 10, 64); err != nil {
		return mapEntry{}, fmt.Errorf("parsing maps line %q: inode: %w", proc.Clip(line), err)
	}
	e.dev = proc.Device(major, minor)
	if e.executable = perms[2] == 'x'; e.executable {
		e.path = strings.ReplaceAll(string(bytes.TrimLeft(path, " ")), `\012`, "\n")
	}
	return e, nil
}
