// SPDX-License-Identifier: Apache-2.0

package route

import "bytes"

const (
	id = "{id}"
	// Other is the route of paths that found no place.
	Other = "/{other}"

	longHex     = 16  // digits of a hexadecimal number that nobody would choose as a name
	longToken   = 20  // bytes of letters and digits mixed, such as ULIDs and base64
	longestPath = 256 // bytes of a path that are looked at
)

// Template appends the route of a path to dst and returns it. The path is without its query.
func Template(dst, path []byte) []byte {
	path = path[:min(len(path), longestPath)]
	if len(path) == 0 || path[0] != '/' {
		return append(dst, path...) // * of OPTIONS
	}
	for len(path) > 0 {
		segment := path[1:]
		end := bytes.IndexByte(segment, '/')
		if end < 0 {
			end = len(segment)
		}
		dst = append(dst, '/')
		if isIdentifier(segment[:end]) {
			dst = append(dst, id...)
		} else {
			dst = append(dst, segment[:end]...)
		}
		path = segment[end:]
	}
	return dst
}

// shape is what a segment is made of.
type shape struct {
	digits, hexLetters, letters, separators, others int
	changes                                         int // from letters to digits and back
}

// shapeOf counts a segment's bytes by their kind.
func shapeOf(segment []byte) (s shape) {
	wasDigit := false
	for i, c := range segment {
		isDigit := '0' <= c && c <= '9'
		switch lower := c | 0x20; {
		case isDigit:
			s.digits++
		case 'a' <= lower && lower <= 'f':
			s.hexLetters++
		case 'g' <= lower && lower <= 'z':
			s.letters++
		case c == '-' || c == '_' || c == '.':
			s.separators++
		default:
			s.others++
		}
		if i > 0 && isDigit != wasDigit {
			s.changes++
		}
		wasDigit = isDigit
	}
	return s
}

// isIdentifier tells whether a segment names one thing of many: a number, a UUID, a long hexadecimal number or a long token.
func isIdentifier(segment []byte) bool {
	s := shapeOf(segment)
	switch {
	case s.digits == 0 || s.others > 0:
		return false
	case s.letters+s.hexLetters == 0: // a number, a date, a telephone number; 1.2 is a version
		return bytes.IndexByte(segment, '.') < 0 || s.separators > 2
	case isUUID(segment):
		return true
	case s.letters == 0 && s.separators == 0:
		return len(segment) >= longHex
	}
	const mixed = 4 // a name with a year or a version in it changes twice
	return len(segment) >= longToken && s.changes >= mixed && bytes.IndexByte(segment, '.') < 0
}

// isUUID tells whether a segment has the form 8-4-4-4-12 of hexadecimal digits.
func isUUID(segment []byte) bool {
	const size = 36
	if len(segment) != size {
		return false
	}
	for i, c := range segment {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if s := shapeOf([]byte{c}); s.digits+s.hexLetters == 0 {
				return false
			}
		}
	}
	return true
}
