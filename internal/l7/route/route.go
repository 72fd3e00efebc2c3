// SPDX-License-Identifier: Apache-2.0

package route

import "bytes"

const (
	id = "{id}"
	// Other is the route of paths that found no place.
	Other = "/{other}"

	longHex     = 16  // digits of a hexadecimal number that is no likely name
	longToken   = 20  // bytes of letters and digits mixed, such as ULIDs and base64
	mixedToken  = 6   // the same where letters and digits take turns
	longNumber  = 5   // digits of a number at the end of a name that is no likely part of it
	longestPath = 256 // bytes of a path that are looked at
)

// Template appends the route of a path to dst and returns it. The path is without its query.
func Template(dst, path []byte) []byte {
	cut := len(path) > longestPath
	path = path[:min(len(path), longestPath)]
	if len(path) == 0 || path[0] != '/' {
		return append(dst, path...) // * of OPTIONS
	}
	inURL := false // the last segment was empty or a scheme: an authority may follow
	for len(path) > 0 {
		segment := path[1:]
		end := bytes.IndexByte(segment, '/')
		if end < 0 {
			end = len(segment)
		}
		dst = append(dst, '/')
		name, _, _ := bytes.Cut(segment[:end], []byte(";")) // RFC 3986, section 3.3
		isCut := cut && end == len(segment)
		if isIdentifier(name) || namesUser(segment[:end], inURL) || inURL && isCut {
			dst = append(dst, id...)
		} else {
			dst = append(dst, name...)
		}
		inURL = len(name) == 0 || name[len(name)-1] == ':'
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

// isIdentifier reports whether a segment names one thing of many: a number, a list of them, a UUID, a long hexadecimal number, a token, an
// e-mail address, or a name that ends in one.
func isIdentifier(segment []byte) bool {
	s := shapeOf(segment)
	switch {
	case isAddress(segment), isObjectToken(segment):
		return true
	case s.digits == 0:
		return false
	case s.others > 0: // a list, a place on a map
		return s.letters+s.hexLetters == 0 && s.others == bytes.Count(segment, []byte(","))
	case s.letters+s.hexLetters == 0: // a number, a date, a telephone number; 1.2 is a version
		return bytes.IndexByte(segment, '.') < 0 || s.separators > 2
	case isUUID(segment):
		return true
	case s.letters == 0 && s.separators == 0:
		return len(segment) >= longHex || isMixed(s, mixedToken)
	}
	return bytes.IndexByte(segment, '.') < 0 && (isMixed(s, longToken) || endsInIdentifier(segment, s.separators))
}

// isMixed reports whether letters and digits take turns as in no name, in so many bytes at least.
func isMixed(s shape, bytes int) bool {
	const turns = 4 // a name with a year or a version in it has two, v1beta1 three
	return s.digits+s.hexLetters+s.letters+s.separators >= bytes && s.changes >= turns
}

// endsInIdentifier reports whether a token or a long number is all that follows the last separator of a name.
func endsInIdentifier(name []byte, separators int) bool {
	last := name[bytes.LastIndexAny(name, "-_")+1:]
	s := shapeOf(last)
	switch {
	case s.letters+s.hexLetters > 0:
		return isMixed(s, mixedToken)
	case s.digits >= longNumber:
		return true
	}
	// Four digits after one word are a number of it, unless they are a year.
	return separators == 1 && s.digits == longNumber-1 && !bytes.HasPrefix(last, []byte("19")) && !bytes.HasPrefix(last, []byte("20"))
}

// isObjectToken reports whether a segment begins as an object of JSON in base64 does, such as a JSON Web Token (RFC 7519): {" is eyJ.
func isObjectToken(segment []byte) bool {
	return len(segment) >= longToken && bytes.HasPrefix(segment, []byte("eyJ"))
}

// isAddress reports whether a segment is an e-mail address, and no name with a version or a scale such as a@2.0 and a@2x.png.
func isAddress(segment []byte) bool {
	user, host, found := bytes.Cut(segment, []byte("@"))
	if !found {
		user, host, found = bytes.Cut(segment, []byte("%40"))
	}
	dot := bytes.LastIndexByte(host, '.')
	if !found || len(user) == 0 || dot <= 0 {
		return false
	}
	domain, top := host[:dot], shapeOf(host[dot+1:])
	scale := bytes.TrimRight(domain, "x")
	isScale := len(scale) > 0 && len(scale) == len(domain)-1 && shapeOf(scale).digits == len(scale)
	return !isScale && top.letters+top.hexLetters >= 2 && top.digits+top.separators+top.others == 0
}

// namesUser reports whether a segment is the authority of a URL that names a user, as in the path of a proxy (RFC 3986, section 3.2.1), or holds a
// URL that does. Where no URL begins before it, it is one by the password.
func namesUser(segment []byte, inURL bool) bool {
	at := max(bytes.LastIndexByte(segment, '@'), bytes.LastIndex(segment, []byte("%40")))
	if at < 0 {
		return false
	}
	user := segment[:at]
	return inURL || bytes.IndexByte(user, ':') >= 0 || bytes.Contains(user, []byte("%3A")) || bytes.Contains(user, []byte("%3a"))
}

// isUUID reports whether a segment has the form 8-4-4-4-12 of hexadecimal digits.
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
