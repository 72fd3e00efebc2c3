// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	maxExecutable = 1 << 14  // executable mappings of one process
	maxMapsBytes  = 64 << 20 // of /proc/PID/maps
)

var (
	errManyMappings = errors.New("more executable mappings than are handled")
	errNoMappings   = errors.New("no mappings: a zombie or a kernel thread")
)

// maps reads the executable mappings.
func (d *procDir) maps() (entries []mapEntry, err error) {
	err = d.retry(func() (err error) {
		entries, err = d.mapsShown()
		return err
	})
	return entries, err
}

func (d *procDir) mapsShown() ([]mapEntry, error) {
	fd, err := openat(d.shown(), "maps", unix.O_RDONLY)
	if err != nil {
		return nil, d.failed("maps", err)
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	out, err := readMaps(func(b []byte) (int, error) { return read(fd, b) })
	if errors.Is(err, errNoMappings) {
		err = fmt.Errorf("%w: %w", err, ErrProcessExited)
	}
	if err != nil {
		return nil, d.failed("maps", err)
	}
	return out, nil
}

// readMaps reads a memory map to its end in bounded chunks.
func readMaps(read func([]byte) (int, error)) ([]mapEntry, error) {
	buf := make([]byte, 16<<10) // the kernel returns a page at a time
	var out []mapEntry
	filled, total := 0, 0
	for {
		n, err := read(buf[filled:])
		if err != nil {
			return nil, err
		}
		filled, total = filled+n, total+n
		rest := buf[:filled]
		for {
			line, after, whole := bytes.Cut(rest, []byte{'\n'})
			if !whole {
				break
			}
			rest = after
			e, err := parseMapLine(line)
			if err != nil {
				return nil, err
			}
			if e.executable {
				out = append(out, e)
			}
		}
		switch {
		case n == 0 && total == 0:
			return nil, errNoMappings
		case n == 0 && len(rest) == 0:
			return out, nil
		case n == 0 || len(rest) == len(buf) || total > maxMapsBytes:
			return nil, fmt.Errorf("line of %d bytes, %d in all: out of bounds", len(rest), total)
		case len(out) > maxExecutable:
			return nil, errManyMappings
		}
		filled = copy(buf, rest)
	}
}
