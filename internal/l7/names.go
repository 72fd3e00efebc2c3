// SPDX-License-Identifier: Apache-2.0

package l7

import (
	"iter"
	"maps"
)

const (
	// MostHosts bounds the hosts that a process sends requests to by name. Requests to others carry the server's address.
	MostHosts = 200
	// LongestHost bounds the length of a host that a request names: a name and a port are no longer.
	LongestHost = 260
)

// Dictionary bounds the values that a text of a process's series has, since such a text comes from the wire. Dictionaries are compared by
// pointer.
type Dictionary struct {
	// Reason is the reason under which exchanges are counted that find no place.
	Reason string
	// Most is the number of values of a process.
	Most int
	// New returns the values of a process; nil: a [Texts].
	New func(most int) Values
	// Of returns the text of a key that is from the dictionary.
	Of func(*Key) string
}

// Values are those of a process.
type Values interface {
	// Keep drops those that are not wanted.
	Keep(wanted func(string) bool)
}

// Texts is a bounded set of texts.
type Texts struct {
	known map[string]string
	most  int
}

// of returns a text as a string from the set, so that finding a known one allocates nothing; false if the set is full.
func (t *Texts) of(text []byte) (known string, ok bool) {
	if known, ok = t.known[string(text)]; ok {
		return known, true
	}
	if len(t.known) >= t.most {
		return "", false
	}
	known = string(text)
	t.known[known] = known
	return known, true
}

// Keep implements [Values].
func (t *Texts) Keep(wanted func(string) bool) {
	maps.DeleteFunc(t.known, func(text, _ string) bool { return !wanted(text) })
}

// Names are the texts of a process's series that come from the wire.
type Names struct {
	dictionaries []dictionaryValues
	servers      map[string]Server // by the host as requests name it
}

type dictionaryValues struct {
	*Dictionary
	values Values
}

// values returns those of a dictionary. A process has few dictionaries.
func (n *Names) values(d *Dictionary) Values {
	for i := range n.dictionaries {
		if n.dictionaries[i].Dictionary == d {
			return n.dictionaries[i].values
		}
	}
	var values Values
	if d.New != nil {
		values = d.New(d.Most)
	} else {
		values = &Texts{map[string]string{}, d.Most}
	}
	n.dictionaries = append(n.dictionaries, dictionaryValues{d, values})
	return values
}

// server returns the server that a host names; false if there is no place for another one.
func (n *Names) server(host []byte) (named Server, known bool) {
	if named, known = n.servers[string(host)]; known {
		return named, true
	}
	if len(n.servers) >= MostHosts {
		return Server{}, false
	}
	if n.servers == nil {
		n.servers = map[string]Server{}
	}
	name := string(host)
	address, port := SplitHost(name)
	named = Server{address, uint16(port)}
	n.servers[name] = named
	return named, true
}

// Keep drops the texts and servers that no key has.
func (n *Names) Keep(keys iter.Seq[*Key]) {
	hosts, texts := map[string]bool{}, map[*Dictionary]map[string]bool{}
	for _, d := range n.dictionaries {
		texts[d.Dictionary] = map[string]bool{}
	}
	for k := range keys {
		hosts[k.Server.Host] = true
		for _, d := range k.Semantics.Dictionaries {
			if of := texts[d]; of != nil {
				of[d.Of(k)] = true
			}
		}
	}
	for _, d := range n.dictionaries {
		wanted := texts[d.Dictionary]
		d.values.Keep(func(text string) bool { return wanted[text] })
	}
	maps.DeleteFunc(n.servers, func(_ string, named Server) bool { return !hosts[named.Host] })
}

// Unnamed counts exchanges that are exported without something of their own, since their process was at its bound of that.
type Unnamed struct {
	// Series counts exchanges that have no series of their own, Hosts those without a server's name, Peers those without a peer.
	Series, Hosts, Peers uint64
	// Texts counts exchanges without a text of their own by [Dictionary.Reason]; nil: there are none.
	Texts map[string]uint64
}

func (u *Unnamed) full(d *Dictionary) {
	if u.Texts == nil {
		u.Texts = map[string]uint64{}
	}
	u.Texts[d.Reason]++
}

// Add adds the counts of o.
func (u *Unnamed) Add(o *Unnamed) {
	u.Series += o.Series
	u.Hosts += o.Hosts
	u.Peers += o.Peers
	for reason, n := range o.Texts {
		if u.Texts == nil {
			u.Texts = map[string]uint64{}
		}
		u.Texts[reason] += n
	}
}
