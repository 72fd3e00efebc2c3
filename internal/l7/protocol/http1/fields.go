// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bytes"
	"net/textproto"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// use is what the parser itself makes of a field.
type use uint8

const (
	useNone use = iota
	useContentLength
	useTransferEncoding
	useHost
	useExpect
	useUpgrade
)

// field is one whose lines are looked at.
type field struct {
	canonical, lower string // the two usual spellings
	use              use
	asked            int // its place among those asked for, or -1
}

// fields finds the wanted ones by the first byte of a line.
type fields struct {
	byFirst [256][]field
	// lines are those of wanted fields, those that go on with one, and the one that ends the head.
	lines l7.Beginnings
	asked int
}

// newFields wants those that are asked for and those that the parser itself uses.
func newFields(asked []string, used map[string]use) *fields {
	f := &fields{asked: len(asked)}
	for i, name := range asked {
		f.add(name, used[strings.ToLower(name)], i)
	}
	for name, use := range used {
		if !containsFold(asked, name) {
			f.add(name, use, -1)
		}
	}
	for _, other := range []string{"\r", "\n", " ", "\t"} {
		f.lines.Want(other)
	}
	return f
}

func containsFold(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

func (f *fields) add(name string, use use, asked int) {
	wanted := field{canonical: textproto.CanonicalMIMEHeaderKey(name), lower: strings.ToLower(name), use: use, asked: asked}
	for _, spelling := range []string{wanted.lower, strings.ToUpper(name)} {
		f.lines.Want(spelling)
		first := spelling[0]
		if c := f.byFirst[first]; len(c) == 0 || c[len(c)-1].lower != wanted.lower {
			f.byFirst[first] = append(c, wanted)
		}
	}
}

// find is the wanted field of a line, or nil. The line is not empty.
func (f *fields) find(line []byte) *field {
	candidates := f.byFirst[line[0]]
	for i := range candidates {
		if candidates[i].names(line) {
			return &candidates[i]
		}
	}
	return nil
}

// names reports whether the line is one of this field.
func (w *field) names(line []byte) bool {
	n := len(w.lower)
	if len(line) <= n || line[n] != ':' {
		return false
	}
	name := line[:n]
	return string(name) == w.canonical || string(name) == w.lower || strings.EqualFold(string(name), w.lower)
}

// value is what follows the field's name, without blanks around it.
func (w *field) value(line []byte) []byte {
	value := line[len(w.lower)+1:]
	if len(value) > 1 && value[0] == ' ' && value[1] > ' ' && value[len(value)-1] > ' ' {
		return value[1:]
	}
	return bytes.Trim(value, " \t")
}
