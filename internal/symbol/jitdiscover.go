// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/codemap"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// errNoSize is the cause when a file has no size.
var errNoSize = errors.New("not a file that can grow")

// discover opens the files in which a process lists its code, or those that have replaced them. The open files of a process that has exited
// stay. It releases the lock meanwhile.
func (s *Symbolizer) discover(a *AddressSpace) {
	j := &a.jit
	var e *mapEntry
	if known := a.dumpEntry(); known != nil {
		copied := *known
		e = &copied
	}
	dump, perfMap := codeListingOf(j.dump), codeListingOf(j.perfMap)
	exited := false
	s.mu.outside(func() {
		p, err := s.proc.dir(a.id)
		if exited = err != nil; exited {
			return // its samples are named by what is known
		}
		defer p.close()
		if e != nil {
			c, err := p.locate(e)
			dump.find(c, fmt.Sprintf("%s of process %d", e.name(), a.id.PID), err)
		}
		c, path, err := p.perfMap(a.id)
		perfMap.find(c, path, err)
	})
	if exited {
		return
	}
	if e != nil {
		j.dump = s.follow(a, j.dump, dump, codemap.NewJitDump)
	}
	j.perfMap = s.follow(a, j.perfMap, perfMap, codemap.NewPerfMap)
}

// codeListing is a file in which a process lists its code, as it was found.
type codeListing struct {
	key  codemap.Key
	path string
	src  source // nil: the file is the open one
	open bool   // the known file is open
	err  error
}

// codeListingOf is what is known of a file.
func codeListingOf(f *codemap.File) *codeListing {
	if f == nil {
		return &codeListing{}
	}
	return &codeListing{key: f.Key, open: f.Src != nil}
}

// find opens the file that was found now, unless it is the open one. It takes the candidate over. The lock is not held.
func (l *codeListing) find(c candidate, path string, err error) {
	l.path, l.err = path, err
	if err != nil {
		return
	}
	defer c.close() //nolint:errcheck // a file that was only examined
	key := codemap.Key{Device: c.key().dev, Inode: c.key().ino}
	if l.open && l.key == key {
		return
	}
	l.key = key
	l.src, l.err = c.open()
}

// dumpEntry returns the mapping of the process's jitdump, nil when there is none.
func (a *AddressSpace) dumpEntry() *mapEntry {
	for i := range a.regions {
		if isDump(a.regions[i].name()) {
			return &a.regions[i].mapEntry
		}
	}
	return nil
}

// refuse counts and logs why a file is not read: once, not at each poll.
func (s *Symbolizer) refuse(a *AddressSpace, err error) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrProcessExited) || a.jit.refused == err.Error() {
		return
	}
	a.jit.refused = err.Error()
	s.failed(err)
}

// follow returns the file to read from now on: the same as before, or the one that has replaced it.
func (s *Symbolizer) follow(a *AddressSpace, old *codemap.File, found *codeListing, fresh func() codemap.Format) *codemap.File {
	switch {
	case found.err != nil:
		s.refuse(a, found.err)
		return old
	case found.src == nil:
		return old
	}
	growing, ok := found.src.(codemap.Source)
	if !ok {
		s.failed(reason.New(reason.NotRegular, fmt.Errorf("opening %s: %w", found.path, errNoSize)))
	}
	same := old != nil && old.Key == found.key
	switch {
	case !ok, a.closed, s.closed, same && old.Src != nil: // it was opened meanwhile
		s.discard(found.path, found.src)
		return old
	case same:
		old.Src = growing
		s.jitted.open++
		s.limitCode(old)
		return old
	}
	if old != nil && a.jit.bin != nil {
		s.resetFrames(a.jit.bin)
	}
	return s.adopt(a, old, &codemap.File{Path: found.path, Key: found.key, Src: growing, Fresh: fresh})
}
