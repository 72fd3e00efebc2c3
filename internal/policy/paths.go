// SPDX-License-Identifier: Apache-2.0

package policy

const (
	// maxPaths is how many paths a policy remembers twice: those lately asked for, and those before.
	// What is longer than maxPathBytes is not remembered.
	maxPaths, maxPathBytes = 256, 512
	// maxMatches bounds what is done in a second to find out which rules paths count for that are
	// not remembered: one for each rule and each begun matchBytes of the path, of half a
	// microsecond or so.
	maxMatches, matchBytes = 20000, 64
	// noPlace is the place of a request in a rule for which it does not count.
	noPlace = -1
)

// places are the windows of each rule of a policy that requests to a path count for.
type places []int8

// paths remembers the places of paths, since to find them a path is matched with each rule.
type paths struct {
	// broad are the places of requests of which no path is known: those of rules that are for all.
	broad places
	// like is, for each rule, the first that is narrowed in the same way.
	like []int
	// narrowed is how many rules have to be asked.
	narrowed      int
	known, before map[string]places
	// bytes is the memory of what is remembered, bytesBefore of before.
	bytes, bytesBefore int
}

func makePaths(rules []Rule) paths {
	p := paths{broad: make(places, len(rules)), like: make([]int, len(rules))}
	first := map[string]int{}
	for i := range rules {
		r := &rules[i]
		p.like[i], p.broad[i] = i, noPlace
		if !r.Monitor.OfRequests() {
			continue
		}
		uris := r.uris()
		if j, seen := first[uris]; seen {
			p.like[i], p.broad[i] = j, p.broad[j]
			continue
		}
		first[uris] = i
		if len(r.Paths) == 0 && r.Pattern == nil {
			p.broad[i] = 0
		} else {
			p.narrowed++
		}
	}
	return p
}

// find returns the places of a path, and what was done for it. Where that is more than left,
// it is not done: false, and the places of those rules that are for all.
func (p *paths) find(rules []Rule, key []byte, path []byte, begins bool, left int) (found places, matches int, ok bool) {
	if p.narrowed == 0 {
		return p.broad, 0, true
	}
	if found, ok := p.known[string(key)]; ok {
		return found, 0, true
	}
	if found, ok := p.before[string(key)]; ok {
		p.remember(string(key), found)
		return found, 0, true
	}
	if matches = p.narrowed * (1 + len(path)/matchBytes); matches > left {
		return p.broad, 0, false
	}
	found = make(places, len(rules))
	for i := range rules {
		switch like := p.like[i]; {
		case !rules[i].Monitor.OfRequests():
			found[i] = noPlace
		case like < i:
			found[i] = found[like]
		default:
			found[i] = noPlace
			if window, counts := rules[i].window(path, begins); counts {
				found[i] = int8(window)
			}
		}
	}
	if len(key) <= maxPathBytes {
		p.remember(string(key), found)
	}
	return found, matches, true
}

// remember adds the places of a path; paths that were not used lately are evicted.
func (p *paths) remember(key string, found places) {
	if len(p.known) >= maxPaths || p.known == nil {
		p.bytes -= p.bytesBefore
		p.before, p.bytesBefore = p.known, p.bytes
		p.known = make(map[string]places)
	}
	p.known[key] = found
	p.bytes += pathEntry + len(key) + len(found)
}

// pathEntry is the memory of the map's entry of a path, in addition to the path and its places.
const pathEntry = 64
