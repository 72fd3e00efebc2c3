// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// maxSplitFiles bounds the .dwo files of one binary that are open at a time.
const maxSplitFiles = 32

var (
	errNoSplit  = errors.New("the split unit is not there")
	errNoOpener = errors.New("other files are not to be read")
)

// splitter finds split units; DWARF 5, 7.3.2, and before that GNU's extension of DWARF 4.
type splitter struct {
	open    func(path string) (File, error)
	paths   []string // of the file, and of the binary when that is another
	dir     string   // for inflated sections
	space   *Workspace
	tried   bool // to open the package
	pack    *packageFile
	objects []*splitFile // .dwo files, in the order of opening
}

// splitFile is an open .dwo or .dwp file.
type splitFile struct {
	obj   *object
	close func() error
}

func (s *splitter) bytes() int64 {
	var n int64
	for _, f := range s.objects {
		n += f.obj.bytes()
	}
	if s.pack != nil {
		n += s.pack.obj.bytes()
	}
	return n
}

func (s *splitter) close() error {
	var errs []error
	for _, f := range s.objects {
		errs = append(errs, f.close())
	}
	if s.pack != nil {
		errs = append(errs, s.pack.close())
	}
	s.objects, s.pack, s.tried = nil, nil, true
	return errors.Join(errs...)
}

// splitUnit finds the split unit of a skeleton and opens it.
func (d *Data) splitUnit(skeleton *unit) (*unit, error) {
	s := d.split
	if s.open == nil {
		return nil, fmt.Errorf("split unit %#x: %w", skeleton.dwoID, errNoOpener)
	}
	if !s.tried {
		s.tried = true
		for _, p := range s.paths {
			if s.pack == nil {
				s.pack, _ = s.openPackage(p + ".dwp") // without a package there are .dwo files
			}
		}
	}
	if s.pack != nil {
		if o, err := s.pack.object(skeleton.dwoID, skeleton.version); err == nil {
			return joined(o, skeleton)
		} else if !errors.Is(err, errNoSplit) {
			return nil, err
		}
	}
	name, err := skeleton.text(skeleton.root.dwoName)
	if err != nil {
		return nil, err
	}
	f, err := s.openFile(skeleton, name)
	if err != nil {
		return nil, fmt.Errorf("split unit %s: %w", name, err)
	}
	u, err := joined(f.obj, skeleton)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("split unit %s: %w", name, err), f.close())
	}
	if len(s.objects) == maxSplitFiles {
		err = d.dropSplit()
	}
	s.objects = append(s.objects, f)
	return u, err
}

// dropSplit closes the file that was opened first and drops its tables.
func (d *Data) dropSplit() error {
	f := d.split.objects[0]
	d.split.objects = append(d.split.objects[:0], d.split.objects[1:]...)
	for n, t := range d.tables {
		if t.unit != nil && t.unit.obj == f.obj {
			d.held -= t.bytes()
			delete(d.tables, n)
		}
	}
	return f.close()
}

// joined finds the unit of an object that belongs to a skeleton.
func joined(o *object, skeleton *unit) (*unit, error) {
	var found *unit
	err := o.scan(func(u *unit) error {
		if found != nil || u.isType() {
			return nil
		}
		if u.version < 5 { // its first entry has the identifier
			if err := u.open(); err != nil {
				return err
			}
			if u.root.dwoID.ok() {
				u.dwoID = u.root.dwoID.u
			}
		}
		if u.dwoID == skeleton.dwoID {
			found = u
		}
		return nil
	})
	if found == nil {
		return nil, errors.Join(fmt.Errorf("%s: %#x: %w", o.info.name, skeleton.dwoID, errNoSplit), err)
	}
	found.skeleton = skeleton
	return found, found.open()
}

// openFile opens the .dwo file of a unit.
func (s *splitter) openFile(skeleton *unit, name string) (*splitFile, error) {
	places := []string{name}
	if !path.IsAbs(name) && skeleton.root.compDir.ok() {
		dir, err := skeleton.text(skeleton.root.compDir)
		if err != nil {
			return nil, err
		}
		places = append(places, path.Join(dir, name))
	}
	for _, p := range s.paths {
		places = append(places, path.Join(path.Dir(p), path.Base(name)))
	}
	var errs []error
	for _, p := range places {
		if !path.IsAbs(p) {
			continue
		}
		f, _, _, err := s.openELF(p)
		if err == nil {
			return f, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(append(errs, errNoSplit)...)
}

// openELF opens a file of split units.
func (s *splitter) openELF(p string) (*splitFile, *elfimage.File, []elfimage.Section, error) {
	file, err := s.open(p)
	if err != nil {
		return nil, nil, nil, err
	}
	x := s.inflater()
	out := &splitFile{close: func() error { return errors.Join(x.close(), file.Close()) }}
	f, sections, err := parse(file.Image)
	if err == nil {
		out.obj, err = readObject(f, sections, x, ".dwo")
	}
	if err == nil && out.obj.info.Size == 0 {
		err = ErrNone
	}
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("%s: %w", p, err), out.close())
	}
	return out, f, sections, nil
}

// inflater makes the inflater of a file with split units.
func (s *splitter) inflater() *inflater {
	return &inflater{dir: s.dir, space: s.space, limit: maxFurther}
}

// part returns a part of a section.
func (s *section) part(off, size uint64) (section, error) {
	if !s.Has(off, size) {
		return section{}, fmt.Errorf("%s: %d bytes at %#x: %w", s.name, size, off, errShort)
	}
	return section{elfimage.Image{Src: io.NewSectionReader(s.Src, int64(off), int64(size)), Size: size}, s.name}, nil //nolint:gosec // within the section
}
