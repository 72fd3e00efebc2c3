// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/disasm"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// Called reports whether ret is the return address of the call that led into the function of pc, at a time when that function had no frame of
// its own: it never makes one, or had not made it yet. Unwinding by frame pointers misses the caller then. For an address space of x86-64,
// ret must be the word at the top of the stack, for arm64 the link register; any other number does no harm.
//
// It is true only when the code proves it: before ret is a call, and nothing from the function's start up to pc moves the stack (or the link
// register). For Go the compiler's own table of stack sizes decides, for others the instructions in the order of their addresses. A direct
// call must lead to the function, or to one that jumps to it. If that cannot be determined, as without symbols, it is false.
func (a *AddressSpace) Called(pc, ret uint64) bool {
	s := a.s
	s.mu.Lock()
	defer s.mu.Unlock()
	callee := a.find(pc)
	if callee == nil || !callee.hasCode() {
		return false
	}
	l := s.leaf(a, callee, pc+callee.delta)
	if l.standing == framed {
		return false
	}
	caller := a.find(ret - 1) // a call may be the last instruction
	return caller != nil && caller.hasCode() && s.called(a, callee, l, caller, ret+caller.delta)
}

// hasCode reports whether the region shows code that can be read.
func (r *region) hasCode() bool {
	return r.bin.cause == reason.Named && disasm.DecoderFor(r.bin.arch) != nil
}

func (s *Symbolizer) called(a *AddressSpace, callee *region, l leaf, caller *region, ret uint64) bool {
	c := s.site(a, caller, ret)
	same := callee.bin == caller.bin
	switch {
	case c.Flow == disasm.Onward:
		return false
	case l.standing == exact, same && c.Flow == disasm.Call && c.Target == l.start:
		return true
	case l.standing == unsure:
		return false
	case c.Flow == disasm.CallIndirect:
		return true
	}
	if !same {
		l.start = 0 // a call out of the binary leads to a stub
	}
	return s.jump(a, caller, c.Target, l.start)
}

// leaf returns what is known of an address of a region's binary, or finds it out.
func (s *Symbolizer) leaf(a *AddressSpace, r *region, addr uint64) leaf {
	k := about{owner: r.bin.serial, address: addr, role: roleLeaf}
	f := s.found.get(k)
	if f == nil {
		f = s.findOut(a, r, k, func() (uint8, uint64, error) {
			l, err := s.leafAt(r.bin, addr)
			return uint8(l.standing), l.start, err
		})
	}
	return leaf{start: f.addr, standing: standing(f.verdict)}
}

// site returns what is known of a return address of a region's binary.
func (s *Symbolizer) site(a *AddressSpace, r *region, ret uint64) disasm.CallSite {
	k := about{owner: r.bin.serial, address: ret, role: roleSite}
	f := s.found.get(k)
	if f == nil {
		f = s.findOut(a, r, k, func() (uint8, uint64, error) {
			c, err := s.siteBefore(r.bin, ret)
			return uint8(c.Flow), c.Target, err
		})
	}
	return disasm.CallSite{Flow: disasm.Flow(f.verdict), Target: f.addr}
}

// jump reports whether a function of a region's binary may jump to an address.
func (s *Symbolizer) jump(a *AddressSpace, r *region, from, to uint64) bool {
	k := about{owner: r.bin.serial, address: from, other: to, role: roleJump}
	f := s.found.get(k)
	if f == nil {
		f = s.findOut(a, r, k, func() (uint8, uint64, error) {
			ok, err := s.jumpsTo(r.bin, from, to)
			if ok && err == nil {
				return 1, 0, nil
			}
			return 0, 0, err
		})
	}
	return f.verdict == 1
}

// nothing is the finding for a file that cannot be read.
var nothing finding

// findOut derives a finding from a binary's file, and caches it. What cannot be derived from the file is cached as nothing; that the file
// itself cannot be read now is not cached.
func (s *Symbolizer) findOut(a *AddressSpace, r *region, k about, look func() (uint8, uint64, error)) *finding {
	b := r.bin
	if s.closed || b.lost && b.file == nil {
		return &nothing
	}
	if err := s.reopen(a, r); err != nil {
		b.lost = true
		s.failed(err)
		return &nothing
	}
	src := b.opened()
	s.hold(src)
	defer s.release(src)
	s.tick++
	b.used = s.tick
	verdict, addr, err := look()
	if errors.Is(err, errNotYet) {
		return &nothing // the next sample asks again
	}
	if err != nil {
		verdict, addr = 0, 0
		s.failed(reason.New(reason.BadELF, fmt.Errorf("looking for the caller in %s: %w", b.path, err)))
	}
	s.found.put(k, verdict, addr)
	if s.held() > s.memory {
		s.makeRoom(0, b)
	}
	return s.found.get(k)
}
