// SPDX-License-Identifier: Apache-2.0

package store

import "github.com/otelcol-ebpf/ebpfreceiver/internal/unwind"

const (
	// maxRules is UNWIND_RULES, ruleBytes the distance of two rules in the map.
	maxRules, ruleBytes = 32768, 16
	// ruleShare is the part of the free rules that one table may take: a binary with
	// more different ones than any compiler makes leaves room for all others.
	ruleShare = 8
)

// rules are those of all tables, each there once. A rule goes with the last table that
// uses it, and its place is used again when no program reads it any more.
type rules struct {
	memory []byte // room for maxRules
	index  map[unwind.Rule]uint16
	places []place
	// unused are the places that were given back, waiting those that may be read still.
	unused, waiting []uint16
}

// place is what a place holds.
type place struct {
	rule  unwind.Rule
	users uint32 // tables
}

func newRules(memory []byte) rules {
	// The first rule is that there is none, and stays.
	return rules{memory: memory, index: map[unwind.Rule]uint16{{}: 0}, places: []place{{users: 1}}}
}

// room is how many new rules a table may bring.
func (r *rules) room() int { return (maxRules - len(r.places) + len(r.unused)) / ruleShare }

// use counts another table that uses a rule, if it is there.
func (r *rules) use(rule unwind.Rule) (at uint16, ok bool) {
	if at, ok = r.index[rule]; ok {
		r.places[at].users++
	}
	return at, ok
}

// add gives a place to a rule that is not there and has one user. There must be room.
func (r *rules) add(rule unwind.Rule) uint16 {
	var at uint16
	if n := len(r.unused); n > 0 {
		at, r.unused = r.unused[n-1], r.unused[:n-1]
		r.places[at] = place{rule, 1}
	} else {
		at = uint16(len(r.places))
		r.places = append(r.places, place{rule, 1})
	}
	r.index[rule] = at
	r.write(at, rule)
	return at
}

// drop counts off a table that used the rules at these places.
func (r *rules) drop(places []uint16) {
	for _, at := range places {
		if r.places[at].users--; r.places[at].users == 0 {
			delete(r.index, r.places[at].rule)
			r.waiting = append(r.waiting, at)
		}
	}
}

// settled is told that no program reads what was dropped before.
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
