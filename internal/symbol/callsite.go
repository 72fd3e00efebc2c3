// SPDX-License-Identifier: Apache-2.0

package symbol

// site is what is known of the instruction before an address.
type site struct {
	flow   flow // call, callIndirect, or onward when it is no call
	target uint64
}

// siteBefore decodes the call that ends before an address of an open binary.
// A call by way of a stub, such as one of the procedure linkage table, counts
// as an indirect one.
func (s *Symbolizer) siteBefore(b *binary, addr uint64) (site, error) {
	var buf [8]byte
	if !b.covers(addr - 1) {
		return site{}, nil
	}
	code, err := s.codeBefore(b, addr, buf[:])
	if err != nil {
		return site{}, err
	}
	c := callEnding(decoderFor(b.arch), code, addr, b.covers)
	if c.flow != call {
		return c, nil
	}
	stub, err := s.isStub(b, c.target)
	if stub {
		c.flow = callIndirect
	}
	return c, err
}

// callEnding finds a call among the last bytes before an address. Instructions
// have no mark at their end, so what could be several is a direct call to
// where there is code if it can be one.
func callEnding(decode decoder, code []byte, addr uint64, isCode func(uint64) bool) site {
	found := site{}
	for n := 2; n <= len(code); n++ {
		in := decode(code[len(code)-n:], addr-uint64(n)) //nolint:gosec // up to 8
		switch {
		case in.size != n:
		case in.flow == call && isCode(in.target):
			return site{flow: call, target: in.target}
		case in.flow == callIndirect:
			found.flow = callIndirect
		}
	}
	return found
}

// maxStub is how many instructions a stub may have up to its jump.
const maxStub = 5

// isStub reports whether the code at an address of an open binary begins with
// an indirect jump, as that of a procedure linkage table does.
func (s *Symbolizer) isStub(b *binary, addr uint64) (bool, error) {
	stub, left := false, maxStub
	_, err := s.walk(b, addr, addr+maxStub*maxInst, func(_ uint64, in inst) bool {
		stub = in.flow == jumpIndirect
		left--
		return in.flow == onward && !in.frame && left > 0
	})
	return stub, err
}

// maxJumps is how many jumps out of a function are looked after.
const maxJumps = 32

// jumpsTo reports whether the function that begins at from may go on in
// another: it jumps to the address to, or indirectly, or to a stub.
func (s *Symbolizer) jumpsTo(b *binary, from, to uint64) (bool, error) {
	fn, ok, err := s.functionAt(b, from)
	if !ok || err != nil || fn.Start != from {
		return false, err
	}
	found, left := false, maxJumps
	var errStub error
	_, err = s.walk(b, fn.Start, min(fn.End, fn.Start+maxWalk), func(_ uint64, in inst) bool {
		switch {
		case in.flow == jumpIndirect, in.flow == jump && in.target == to:
			found = true
		case in.flow == jump && !fn.Contains(in.target) && b.covers(in.target):
			left--
			found, errStub = s.isStub(b, in.target)
		}
		return !found && errStub == nil && left > 0
	})
	if err == nil {
		err = errStub
	}
	return found, err
}
