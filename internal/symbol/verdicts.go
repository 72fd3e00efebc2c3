// SPDX-License-Identifier: Apache-2.0

package symbol

import "unsafe"

// role says what a finding is about.
type role uint8

const (
	roleLeaf role = iota + 1 // subject: an address in a function
	roleSite                 // subject: a return address
	roleJump                 // subject: a function that is called, other: one that it may jump to
)

// about is what a finding belongs to: addresses of one binary, by its serial
// number, which is never used again.
type about struct {
	owner          uint64
	subject, other uint64
	role           role
}

// finding is one thing that was found out by reading code.
type finding struct {
	about
	verdict uint8 // standing of a leaf, flow of a site, 1 for a jump
	addr    uint64
}

const (
	findingBytes = int64(unsafe.Sizeof(finding{}))
	minFindings  = 64
	maxFindings  = 8192
)

// findings remembers what was found. It is direct-mapped: two that fall on one
// place evict each other. It is made with the first of them.
type findings struct {
	slots []finding
	limit int64
}

func newFindings(memory int64) findings {
	return findings{limit: min(max(memory/256/findingBytes, minFindings), maxFindings)}
}

func (c *findings) bytes() int64 { return int64(len(c.slots)) * findingBytes }

func (c *findings) slot(k about) *finding {
	h := (k.subject ^ k.owner<<40 ^ k.other*31 ^ uint64(k.role)<<60) * 0x9e3779b97f4a7c15
	return &c.slots[(h>>32)%uint64(len(c.slots))]
}

// get gives a finding, nil when it is not remembered.
func (c *findings) get(k about) *finding {
	if len(c.slots) == 0 {
		return nil
	}
	if f := c.slot(k); f.about == k {
		return f
	}
	return nil
}

func (c *findings) put(k about, verdict uint8, addr uint64) {
	if len(c.slots) == 0 {
		c.slots = make([]finding, c.limit)
	}
	*c.slot(k) = finding{about: k, verdict: verdict, addr: addr}
}
