// SPDX-License-Identifier: Apache-2.0

package requests

// texts are names by which series of a process are told, up to a bound.
type texts struct {
	known map[string]string
	most  int
}

func newTexts(most int) texts { return texts{map[string]string{}, most} }

// of is a name as a string that is kept, so that finding a known one allocates nothing;
// false where it is one too many.
func (t *texts) of(name []byte) (known string, ok bool) {
	if known, ok = t.known[string(name)]; ok {
		return known, true
	}
	if len(t.known) >= t.most {
		return "", false
	}
	known = string(name)
	t.known[known] = known
	return known, true
}

// keep forgets the others.
func (t *texts) keep(wanted map[string]bool) {
	for name := range t.known {
		if !wanted[name] {
			delete(t.known, name)
		}
	}
}
