// SPDX-License-Identifier: Apache-2.0

package rfc9110

import "bytes"

// SplitPath parts a path from its query, which is nil where there is none.
func SplitPath(target []byte) (path, query []byte) {
	if mark := bytes.IndexByte(target, '?'); mark >= 0 {
		return target[:mark], target[mark+1:]
	}
	return target, nil
}

// Target is a request's target taken apart. All parts lie in the target; those that it does not have are empty.
type Target struct{ Scheme, Host, Path, Query []byte }

// SplitTarget takes a target apart in each of its forms but that of CONNECT. What a target says of the user is left out: it is
// a credential.
func SplitTarget(raw []byte) (t Target) {
	t.Path = raw
	if len(raw) > 0 && raw[0] != '/' {
		scheme, rest, absolute := bytes.Cut(raw, []byte("://"))
		if !absolute {
			rest = raw
		}
		host, path := splitAuthority(rest)
		if absolute {
			t.Scheme, t.Host, t.Path = scheme, host, path
		} else {
			t.Path = rest[len(rest)-len(host)-len(path):]
		}
	}
	t.Path, t.Query = SplitPath(t.Path)
	return t
}

// splitAuthority parts the host from the path.
func splitAuthority(rest []byte) (host, path []byte) {
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	return WithoutUserinfo(rest[:end]), rest[end:]
}

// WithoutUserinfo returns an authority without the user's name and password (RFC 3986, section 3.2.1), which no Host field may
// have and some clients send.
func WithoutUserinfo(authority []byte) []byte {
	return authority[bytes.LastIndexByte(authority, '@')+1:]
}
