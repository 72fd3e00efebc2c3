// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"cmp"
	"errors"
	"fmt"
)

// defaultMemory is the bound of one binary's tables when none is given.
const defaultMemory = 48 << 20

// Data is the debug information of one binary. It is not safe for concurrent use.
type Data struct {
	main     *object
	index    *index
	limit    int64
	tables   map[uint32]*table
	held     int64 // bytes of the tables
	tick     uint64
	built    uint64
	space    *Workspace
	filesOf  *lineHeader // the only one that keeps its files
	closers  []func() error
	split    *splitter
	inflated *inflater
}

// newData makes the index of an object.
func newData(o *object, limit int64, space *Workspace) (*Data, error) {
	if limit <= 0 {
		limit = defaultMemory
	}
	d := &Data{main: o, space: space, limit: limit, tables: make(map[uint32]*table), split: &splitter{}}
	var err error
	d.index, err = makeIndex(o)
	if len(d.index.ranges) == 0 {
		return nil, cmp.Or(err, ErrNone)
	}
	return d, err
}

// Lookup appends the lines of an address of the binary, the innermost inlined function first, to dst: none if it is not known. With an error,
// the lines are correct but incomplete.
func (d *Data) Lookup(addr uint64, dst []Line) ([]Line, error) {
	if !d.index.text.Contains(addr) || addr-d.index.text.Start >= noScope {
		return dst, nil
	}
	rel := uint32(addr - d.index.text.Start)
	var errs []error
	n := len(dst)
	d.index.candidates(rel, func(unit uint32) bool {
		t, err := d.table(unit)
		if err != nil {
			errs = append(errs, err)
		}
		before := t.textBytes
		dst, err = t.find(d, rel, dst)
		d.held += t.textBytes - before
		if err != nil {
			errs = append(errs, err)
		}
		return len(dst) > n
	})
	return dst, errors.Join(errs...)
}

// table returns the table of a unit, an empty one when it cannot be made; the error is returned once.
func (d *Data) table(number uint32) (*table, error) {
	d.tick++
	t := d.tables[number]
	if t != nil {
		t.used = d.tick
		return t, nil
	}
	t, err := d.make(number)
	if t == nil {
		t = &table{failed: true}
	}
	t.used = d.tick
	d.built++
	d.tables[number] = t
	d.held += t.bytes()
	d.evict(t)
	return t, err
}

func (d *Data) make(number uint32) (*table, error) {
	u, err := d.main.header(d.main.starts[number])
	if err == nil {
		err = u.open()
	}
	if err != nil {
		return nil, err
	}
	var errSplit error
	if u.root.dwoName.ok() {
		var split *unit
		if split, errSplit = d.splitUnit(u); errSplit == nil {
			u = split
		}
	}
	t, err := d.space.make(u, d.main.text, d.limit)
	if err != nil {
		err = fmt.Errorf("unit at %s+%#x: %w", u.obj.info.name, u.off, err)
	}
	return t, errors.Join(errSplit, err)
}

// evict drops the least recently used tables, except one.
func (d *Data) evict(but *table) {
	for d.Bytes() > d.limit && len(d.tables) > 1 {
		var oldest uint32
		var found *table
		for n, t := range d.tables {
			if t != but && (found == nil || t.used < found.used) {
				oldest, found = n, t
			}
		}
		d.held -= found.bytes()
		delete(d.tables, oldest)
	}
}

// files makes a header the one that keeps its tables of files.
func (d *Data) files(h *lineHeader) *lineHeader {
	if d.filesOf != h && d.filesOf != nil {
		d.filesOf.dirs, d.filesOf.files = nil, nil
	}
	d.filesOf = h
	return h
}

// Bytes is the memory in use.
func (d *Data) Bytes() int64 {
	n := d.held + d.main.bytes() + d.index.bytes()
	if d.inflated != nil {
		n += d.inflated.memory
	}
	return n + d.split.bytes()
}

// Others reports whether further files are open than the one that it was opened with.
func (d *Data) Others() bool {
	return len(d.closers) > 1 || len(d.split.objects) > 0 || d.split.pack != nil
}

// InFiles is how many bytes of it were inflated into files.
func (d *Data) InFiles() uint64 {
	if d.inflated == nil {
		return 0
	}
	return d.inflated.inFiles
}

// Built is the number of units whose tables were made.
func (d *Data) Built() uint64 { return d.built }

// Close closes the files that were opened in addition to the binary itself.
func (d *Data) Close() error {
	var errs []error
	errs = append(errs, d.split.close())
	for _, c := range d.closers {
		errs = append(errs, c())
	}
	d.closers, d.tables, d.held = nil, nil, 0
	return errors.Join(errs...)
}
