// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// Bounds of what is kept for domains: the views of all binaries, the domains of each binary, and the decisions of all domains about binaries,
// each of which takes so many bytes. Users share views and decisions (see [byUser]). The processes of further domains have the names that
// serve all processes, which is counted as an error of reason too_large, once for each process.
const (
	maxViews      = 1024
	maxDomains    = 4096
	maxDecisions  = 16384
	decisionBytes = 128
	// decisionsShare is the part of the memory that decisions may take.
	decisionsShare = 16
)

// domain is the root directory and the user of processes: files below such a root may name only the binaries of such processes, since a build
// id is a claim that any file can make. The zero value is no domain.
type domain struct {
	mounts        uint64 // namespace
	device, inode uint64 // of the root directory
	uid           uint32
	payer         budget.Account // of bounds by user
}

// identity determines which files a process sees, and which of them it may read.
type identity struct {
	domain domain
	as     *fsUser
}

// viewer is what is known of a process that debug files are looked up for.
type viewer struct {
	id     model.ProcessID
	domain domain
	as     *fsUser // nil: not known
	path   string  // of the binary, as the process sees it
}

// credentials are those that files are opened with for the process.
func (v *viewer) credentials() *fsUser {
	if v.as == nil {
		return everyone()
	}
	return v.as
}

// origin is what is known of a binary's file.
type origin struct {
	known  bool
	writer uint32 // the user that owns it
	// open: users that do not own it may write to it.
	open bool
	// identity distinguishes the file from all others on this host, and from its former versions.
	identity string
}

// A view of a binary has frames and lines for the processes of one domain, with the names of the files below their root. Tables and file are
// those of the binary. The functions below are called with the mutex of the symbolizer held.

// tables is the binary that has the tables: that of a view, or the binary itself.
func (b *binary) tables() *binary {
	if b.of != nil {
		return b.of
	}
	return b
}

// viewOf returns the binary that has the frames of a process: a view if the binary has no debug information that serves all processes.
func (s *Symbolizer) viewOf(a *AddressSpace, r *region) *binary {
	b := r.bin
	if !b.lines.lacking || s.lines == nil || a.closed || s.closed {
		return b
	}
	d := a.identity().domain
	if d == (domain{}) {
		return b
	}
	v, decided := b.views[d]
	if _, known := s.all[b]; !known {
		return b // it was dropped while a file was read
	}
	if !decided && !(s.views.Fits(d.payer, maxViews) && s.mayDecide(b, d.payer)) {
		a.viewsFull(b)
		return b
	}
	if !decided {
		v = &binary{of: b, domain: d, path: r.name(), id: b.id, size: b.size, arch: b.arch, cause: reason.Named}
		s.putView(b, d, v)
		s.all[v] = struct{}{}
	}
	if v == nil {
		return b
	}
	return v
}

// viewsFull counts a process that has no view of a binary because a bound is reached.
func (a *AddressSpace) viewsFull(b *binary) {
	if a.crowded {
		return
	}
	a.crowded = true
	a.s.failed(reason.New(reason.TooLarge, fmt.Errorf("debug files of process %d for %s are not looked up below its own root: its user has too many "+
		"root directories, or the host has", a.id.PID, b.path)))
}

// mayDecide reports whether a further decision of a domain of a user about a binary is within the bounds.
func (s *Symbolizer) mayDecide(b *binary, user budget.Account) bool {
	most := min(maxDecisions, s.memory/decisionsShare/decisionBytes)
	return len(b.views) < maxDomains && s.decisions.Fits(user, int(most))
}

// putView records the view of a domain; nil: no file below its root belongs to the binary.
func (s *Symbolizer) putView(b *binary, d domain, v *binary) {
	if b.views == nil {
		b.views = map[domain]*binary{}
	}
	before, decided := b.views[d]
	if !decided {
		s.decisions.Add(d.payer, 1)
		if s.decided[d] == nil {
			s.decided[d] = map[*binary]struct{}{}
		}
		s.decided[d][b] = struct{}{}
	}
	if before != nil {
		s.views.Add(d.payer, -1)
	}
	if v != nil {
		s.views.Add(d.payer, 1)
	}
	b.views[d] = v
}

// dropView drops the view of a domain.
func (s *Symbolizer) dropView(b *binary, d domain) {
	v, decided := b.views[d]
	if !decided {
		return
	}
	delete(b.views, d)
	s.decisions.Add(d.payer, -1)
	if delete(s.decided[d], b); len(s.decided[d]) == 0 {
		delete(s.decided, d)
	}
	if v != nil {
		s.views.Add(d.payer, -1)
		s.forget(v)
	}
}

// dropViews drops all views of a binary.
func (s *Symbolizer) dropViews(b *binary) {
	for d := range b.views {
		s.dropView(b, d)
	}
}

// identity reads which files the process sees, if that is needed: most processes are never sampled in a binary whose debug file is missing.
func (a *AddressSpace) identity() identity {
	if a.asked || a.closed || a.s.closed {
		return a.lastIdentity
	}
	a.asked = true
	p, err := a.s.proc.dir(a.id)
	if err != nil {
		return a.lastIdentity // it has exited
	}
	defer p.close()
	if id, err := p.identity(); err == nil {
		a.move(id)
	}
	return a.lastIdentity
}

// move records which files the process sees.
func (a *AddressSpace) move(to identity) {
	if to.domain != a.lastIdentity.domain {
		a.s.enter(to.domain)
		a.s.leave(a.lastIdentity.domain)
	}
	a.lastIdentity = to
}

// enter counts a process of a domain.
func (s *Symbolizer) enter(d domain) {
	if d != (domain{}) {
		s.domains[d]++
	}
}

// leave drops the views of a domain with its last process: the numbers that identify it may be reused.
func (s *Symbolizer) leave(d domain) {
	if d == (domain{}) {
		return
	}
	if s.domains[d]--; s.domains[d] > 0 {
		return
	}
	delete(s.domains, d)
	for b := range s.decided[d] {
		s.dropView(b, d)
	}
}

// The functions below are called by the reader of lines.

// openOther opens a further file for the binary: one that serves all processes or, for a view, one of the domain.
func (m *lineTables) openOther(t *lineTable, name string) (debuginfo.File, error) {
	file, err := m.s.openShared(&t.viewer, t.bin.tables().origin, name)
	if err == nil || t.bin.of == nil {
		return file, err
	}
	file, err = m.openOwn(t, name)
	t.own = t.own || err == nil
	return file, err
}

// openOwn opens a file below the root of the requesting process.
func (m *lineTables) openOwn(t *lineTable, name string) (debuginfo.File, error) {
	file, err := m.s.openOwn(&t.viewer, t.bin.tables().origin, name)
	t.gone = t.gone || errors.Is(err, ErrProcessExited)
	var refused *reason.Error
	if errors.As(err, &refused) && (refused.Cause == reason.NotPermitted || refused.Cause == reason.NotTrusted) && !t.refused {
		t.refused = true
		m.s.mu.Lock()
		m.s.failed(err)
		m.s.mu.Unlock()
	}
	return file, err
}

// lacks reports whether debug information, or a part of it, is in no file that serves all processes.
func (t *lineTable) lacks() bool {
	return t.bin.of == nil && t.read && (t.missing || t.data == nil && t.file.Size == 0)
}

// searchOwn finds out whether the domain of the requesting process needs a view of the binary.
func (m *lineTables) searchOwn(t *lineTable) {
	d := t.viewer.domain
	if !t.lacks() || t.missing || d == (domain{}) || t.without == d {
		return // it is not known where missing parts are
	}
	file, _, err := debuginfo.Separate(t.image(), t.viewer.path, 0, nil, func(name string) (debuginfo.File, error) { return m.openOwn(t, name) })
	switch {
	case err == nil:
		if err := file.Close(); err != nil {
			m.failed(t, err)
		}
	case errors.Is(err, debuginfo.ErrInSteps): // its checksum is compared when the view is read
	case !t.gone:
		t.without = d
		if errors.Is(err, debuginfo.ErrTooLarge) && !t.tooLarge {
			m.failed(t, err)
		}
	}
	t.gone = false
}

// decide records which views a binary needs, after it was read. The symbolizer is locked.
func (t *lineTable) decide(s *Symbolizer) {
	b := t.bin
	switch {
	case b.of == nil:
		b.lines.lacking = t.lacks()
		if t.without != (domain{}) && s.domains[t.without] > 0 && s.mayDecide(b, t.without.payer) && b.views[t.without] == nil {
			s.putView(b, t.without, nil)
		}
	case !t.read || t.data != nil || t.own:
	case t.gone:
		s.dropView(b.of, b.domain)
	default:
		if b.of.views[b.domain] == b {
			s.putView(b.of, b.domain, nil)
			s.forget(b)
		}
	}
}

// fileOf opens a located file for reading.
func fileOf(c candidate, err error) (debuginfo.File, error) {
	if err != nil {
		return debuginfo.File{}, err
	}
	defer c.close() //nolint:errcheck // a file that was only examined
	src, err := c.open()
	if err != nil {
		return debuginfo.File{}, err
	}
	return debuginfo.File{Image: elfimage.Image{Src: src, Size: uint64(max(c.key().size, 0))}, Close: src.Close}, nil
}

// openShared opens a file of the host that may serve all processes; openOwn one below the root of a process that may serve its domain.
func (s *Symbolizer) openShared(v *viewer, of origin, name string) (debuginfo.File, error) {
	return fileOf(s.proc.shared(v.credentials(), of, name))
}

func (s *Symbolizer) openOwn(v *viewer, of origin, name string) (debuginfo.File, error) {
	return fileOf(s.proc.own(v, of, name))
}
