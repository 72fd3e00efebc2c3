// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"io/fs"
)

// errNoSize is the cause when a file cannot tell how long it is.
var errNoSize = errors.New("not a file that can grow")

// discover opens the files in which a process tells of its code, or those that
// have taken their place. Of a process that is gone the open ones stay.
func (s *Symbolizer) discover(a *AddressSpace) {
	p, err := s.proc.dir(a.id)
	if err != nil {
		return // it has exited: its samples are named by what is known
	}
	defer p.close()
	j := &a.jit
	if e := a.dumpEntry(); e != nil {
		c, err := p.locate(e)
		j.dump = s.follow(a, j.dump, c, err, fmt.Sprintf("%s of process %d", e.name(), a.id.PID), newJitDump)
	}
	c, path, err := p.perfMap(a.id)
	j.perfMap = s.follow(a, j.perfMap, c, err, path, newPerfMap)
}

// dumpEntry gives the mapping of the process's jitdump, nil when there is none.
func (a *AddressSpace) dumpEntry() *mapEntry {
	for i := range a.regions {
		if isDump(a.regions[i].name()) {
			return &a.regions[i].mapEntry
		}
	}
	return nil
}

// follow gives the file to read from now on: the same as before, or what was
// found in its place. It takes the candidate over.
func (s *Symbolizer) follow(a *AddressSpace, old *codeFile, c candidate, err error, path string, fresh func() codeFormat) *codeFile {
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrProcessExited) && a.jit.refused != err.Error() {
			a.jit.refused = err.Error() // told and counted once, not at each look
			s.failed(err)
		}
		return old
	}
	defer c.close() //nolint:errcheck // a file that was only looked at
	key := codeKey{c.key().dev, c.key().ino}
	same := old != nil && old.key == key
	if same && old.src != nil {
		return old
	}
	src, err := c.open()
	if err != nil {
		s.failed(err)
		return old
	}
	growing, ok := src.(codeReader)
	if !ok {
		s.failed(&reasonError{notRegular, errors.Join(fmt.Errorf("opening %s: %w", path, errNoSize), src.Close())})
		return old
	}
	if same {
		old.src = growing
		s.jitted.open++
		s.limitCode(old)
		return old
	}
	if old != nil && a.jit.bin != nil {
		s.resetFrames(a.jit.bin)
	}
	return s.adopt(a, old, &codeFile{path: path, key: key, src: growing, fresh: fresh})
}
