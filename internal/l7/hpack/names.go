// SPDX-License-Identifier: Apache-2.0

package hpack

import "golang.org/x/net/http2/hpack"

// Tag is what a user of this package calls a field's name.
type Tag uint16

const (
	// Unwanted is the tag of all names that are not wanted.
	Unwanted Tag = 0
	// UnknownName is the tag of a field whose name is in a part of the table that was not seen.
	UnknownName Tag = ^Tag(0)
)

// Names are the names of fields whose values are wanted. They are shared by all decoders.
type Names struct {
	plain, coded map[string]Tag
	static       [staticLength + 1]Tag
}

// NewNames makes the set of names, all in lower case, with their tags.
func NewNames(wanted map[string]Tag) *Names {
	n := &Names{plain: make(map[string]Tag, len(wanted)), coded: make(map[string]Tag, len(wanted))}
	for name, tag := range wanted {
		n.plain[name] = tag
		n.coded[string(hpack.AppendHuffmanString(nil, name))] = tag
	}
	for i, f := range staticFields {
		n.static[i+1] = wanted[f.name]
	}
	return n
}

// find is the tag of a name as it was sent. A text has one Huffman code only, so that it need not be decoded.
func (n *Names) find(name text) Tag {
	if name.coded {
		return n.coded[string(name.bytes)]
	}
	return n.plain[string(name.bytes)]
}
