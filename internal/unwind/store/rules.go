// SPDX-License-Identifier: Apache-2.0

package store

import "github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"

const (
	// maxRules is UNWIND_RULES, ruleBytes the distance of two rules in the map.
	maxRules, ruleBytes = 32768, 16
	// ruleShare is the part of the free rules that one table may take: a binary with more different ones than any compiler makes leaves
	// capacity for all others.
	ruleShare = 8
)

// rules are those of all tables, each stored once. A rule is removed with the last table that uses it, and its slot is reused when no program
// reads it any more.
type rules struct {
	memory []byte // capacity for maxRules
	index  map[unwind.Rule]uint16
	slots  []ruleSlot
	// unused are the free slots, waiting those that may still be read.
	unused, waiting []uint16
}

// ruleSlot is the content of a slot.
type ruleSlot struct {
	rule  unwind.Rule
	users uint32 // tables
}

func newRules(memory []byte) rules {
	// The first rule is the zero rule, and stays.
	return rules{memory: memory, index: map[unwind.Rule]uint16{{}: 0}, slots: []ruleSlot{{users: 1}}}
}

// capacity is how many new rules a table may add.
func (r *rules) capacity() int { return (maxRules - len(r.slots) + len(r.unused)) / ruleShare }

// use counts another table that uses a rule, if the rule is stored.
func (r *rules) use(rule unwind.Rule) (at uint16, ok bool) {
	if at, ok = r.index[rule]; ok {
		r.slots[at].users++
	}
	return at, ok
}

// add assigns a slot to a rule that is not stored and has one user. There must be a free slot.
func (r *rules) add(rule unwind.Rule) uint16 {
	var at uint16
	if n := len(r.unused); n > 0 {
		at, r.unused = r.unused[n-1], r.unused[:n-1]
		r.slots[at] = ruleSlot{rule, 1}
	} else {
		at = uint16(len(r.slots))
		r.slots = append(r.slots, ruleSlot{rule, 1})
	}
	r.index[rule] = at
	r.write(at, rule)
	return at
}

// drop removes a table as a user of the rules in these slots.
func (r *rules) drop(slots []uint16) {
	for _, at := range slots {
		if r.slots[at].users--; r.slots[at].users == 0 {
			delete(r.index, r.slots[at].rule)
			r.waiting = append(r.waiting, at)
		}
	}
}

// settled frees the rules that were dropped before: no program reads them any more.
func (r *rules) settled() {
	r.unused, r.waiting = append(r.unused, r.waiting...), nil
}

// write writes struct unwind_rule.
func (r *rules) write(at uint16, rule unwind.Rule) {
	to := r.memory[int(at)*ruleBytes:]
	native.PutUint32(to, uint32(rule.CFAOffset))
	native.PutUint16(to[4:], uint16(rule.FPOffset))
	native.PutUint16(to[6:], uint16(rule.RAOffset))
	to[8], to[9], to[10], to[11] = byte(rule.CFA), byte(rule.FP), byte(rule.RA), rule.Addend
	native.PutUint16(to[12:], uint16(rule.BXOffset))
	to[14] = byte(rule.BX)
}
