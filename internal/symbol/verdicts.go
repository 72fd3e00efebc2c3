// SPDX-License-Identifier: Apache-2.0

package symbol

import "unsafe"

// role is the kind of a finding.
type role uint8

const (
	roleLeaf role = iota + 1 // address: in a function
	roleSite                 // address: a return address
	roleJump                 // address: a called function, other: one that it may jump to
)

// about identifies a finding: addresses of one binary, by its serial number, which is never reused.
type about struct {
	owner          uint64
	address, other uint64
	role           role
}

// finding is one result of reading code.
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

// findings caches results. It is direct-mapped: two with the same index evict each other. It is allocated for the first of them.
type findings struct {
	slots []finding
	limit int64
}

func newFindings(memory int64) findings {
	return findings{limit: min(max(memory/256/findingBytes, minFindings), maxFindings)}
}

func (c *findings) bytes() int64 { return int64(len(c.slots)) * findingBytes }

func (c *findings) slot(k about) *finding {
	h := (k.address ^ k.owner<<40 ^ k.other*31 ^ uint64(k.role)<<60) * 0x9e3779b97f4a7c15
	return &c.slots[(h>>32)%uint64(len(c.slots))]
}

// get returns a finding, nil when it is not cached.
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
