// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"cmp"
	"errors"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// Options configure how the debug information of a binary is read. The zero value is valid.
type Options struct {
	// Memory bounds the memory for one binary, in bytes; 48 MiB when 0.
	Memory int64
	// Workspace is shared with other Data; its own when nil.
	Workspace *Workspace
	// TempDir is where unnamed files for compressed sections are made; the system's own when empty.
	TempDir string
	// Open opens a further file by its absolute path, as the binary's process sees it, or as the host does; nil: none.
	Open func(path string) (File, error)
	// Path is the path of the file, to find further files in its folder.
	Path string
	// Binary is the path of the binary, when the file is its separate debug file.
	Binary string
	// Text is the range of the binary's code. Empty: by the file's own headers.
	Text elfimage.Span
}

// File is an open file.
type File struct {
	elfimage.Image
	Close func() error
}

// Opening is debug information that is about to be opened. Its compressed sections can be inflated before, in slices, since that may take
// seconds. It is not safe for concurrent use.
type Opening struct {
	file     *elfimage.File
	sections []elfimage.Section
	object   *object
	options  Options
	x        *inflater
	err      error
}

// Open reads the first entry of each unit of a binary, or of its separate debug file. An error together with Data describes what is missing;
// it wraps [ErrNone] if there is nothing to read.
func Open(m elfimage.Image, opt Options) (*Data, error) {
	o, err := Begin(m, opt)
	if err != nil {
		return nil, err
	}
	return o.Finish()
}

// Begin locates the debug information. The error wraps [ErrNone] if there is none.
func Begin(m elfimage.Image, opt Options) (*Opening, error) {
	if opt.Workspace == nil {
		opt.Workspace = new(Workspace)
	}
	f, sections, err := parse(m)
	if err != nil {
		return nil, err
	}
	x := &inflater{dir: opt.TempDir, space: opt.Workspace, limit: maxInflated}
	o, err := readObject(f, sections, x, "")
	if o == nil || o.info.Size == 0 {
		return nil, cmp.Or(err, ErrNone)
	}
	return &Opening{file: f, sections: sections, object: o, options: opt, x: x, err: err}, nil
}

// Inflate inflates up to n bytes, and reports whether there is more to inflate. Finish, or a later read, returns the error, if any.
func (p *Opening) Inflate(n uint64) (more bool) { return p.x.slice(n) }

// Close cancels an Opening that is not to be finished.
func (p *Opening) Close() error { return p.x.close() }

// Finish is Open of an Opening.
func (p *Opening) Finish() (*Data, error) {
	f, sections, o, opt, x, err := p.file, p.sections, p.object, p.options, p.x, p.err
	o.text = opt.Text
	if o.text == (elfimage.Span{}) {
		o.text = textOf(f, sections)
	}
	d, errData := newData(o, opt.Memory, opt.Workspace)
	err = errors.Join(err, errData)
	if d == nil {
		return nil, errors.Join(err, x.close())
	}
	d.inflated = x
	x.limit = x.claimed + maxFurther // an alternate file's, too, are inflated at once
	d.split = &splitter{open: opt.Open, paths: []string{opt.Path}, dir: opt.TempDir, space: opt.Workspace}
	if opt.Binary != "" {
		d.split.paths = append(d.split.paths, opt.Binary)
	}
	if name, id, ok := alternateOf(f, sections); ok && opt.Open != nil {
		o.open = func() (*object, error) {
			alt, closeFile, err := openAlternate(name, id, opt.Path, opt.Open, x)
			if err == nil {
				d.closers = append(d.closers, closeFile)
			}
			return alt, err
		}
	}
	d.closers = append(d.closers, x.close)
	return d, err
}

func parse(m elfimage.Image) (*elfimage.File, []elfimage.Section, error) {
	f, err := elfimage.Parse(m)
	if err != nil {
		return nil, nil, err
	}
	sections, err := f.Sections()
	return f, sections, err
}

// textOf returns the range from the first to the last address of code.
func textOf(f *elfimage.File, sections []elfimage.Section) elfimage.Span {
	var out elfimage.Span
	for i, s := range f.Executable(sections) {
		if i == 0 {
			out = s
		}
		out.Start, out.End = min(out.Start, s.Start), max(out.End, s.End)
	}
	return out
}

// readObject finds the debug sections of a file: those with names that end in the suffix, which is ".dwo" for split units and else empty.
func readObject(f *elfimage.File, sections []elfimage.Section, x *inflater, suffix string) (*object, error) {
	o := &object{}
	var errs []error
	f.EachSection(sections, func(name string, s *elfimage.Section) {
		plain, ok := strings.CutSuffix(name, suffix)
		if !ok {
			return
		}
		if rest, ok := strings.CutPrefix(plain, ".zdebug_"); ok {
			plain = ".debug_" + rest
		}
		to := o.section(plain)
		if to == nil || to.Size != 0 {
			return
		}
		img, err := x.section(f, s, name)
		if err != nil {
			errs = append(errs, err)
			return
		}
		to.Image = img
	})
	return o, errors.Join(errs...)
}

// section returns the field for a section by its name, nil for those that are not read.
func (o *object) section(name string) *section {
	var to *section
	switch name {
	case ".debug_info":
		to = &o.info
	case ".debug_abbrev":
		to = &o.abbrev
	case ".debug_line":
		to = &o.line
	case ".debug_line_str":
		to = &o.lineStr
	case ".debug_str":
		to = &o.str
	case ".debug_str_offsets":
		to = &o.strOffsets
	case ".debug_addr":
		to = &o.addr
	case ".debug_ranges":
		to = &o.ranges
	case ".debug_rnglists":
		to = &o.rnglists
	case ".debug_aranges":
		to = &o.aranges
	default:
		return nil
	}
	to.name = name
	return to
}
