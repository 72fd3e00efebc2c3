// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bytes"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// knownMethods are methods that begin a request where nothing else tells that one begins here, with the names that the semantic
// conventions have for them.
var knownMethods = map[string]string{
	"CONNECT": "CONNECT", "DELETE": "DELETE", "GET": "GET", "HEAD": "HEAD", "OPTIONS": "OPTIONS", "PATCH": "PATCH", "POST": "POST", "PUT": "PUT",
	"TRACE": "TRACE", "QUERY": "QUERY",
	"ACL": other, "BIND": other, "CHECKIN": other, "CHECKOUT": other, "COPY": other, "LINK": other, "LOCK": other, "MERGE": other, "MKACTIVITY": other,
	"MKCALENDAR": other, "MKCOL": other, "MOVE": other, "NOTIFY": other, "PROPFIND": other, "PROPPATCH": other, "PURGE": other, "REBIND": other,
	"REPORT": other, "SEARCH": other, "SOURCE": other, "SUBSCRIBE": other, "UNBIND": other, "UNLINK": other, "UNLOCK": other, "UNSUBSCRIBE": other,
}

const (
	other         = l7.OtherMethod
	longestMethod = len("UNSUBSCRIBE")
	versionPrefix = "HTTP/1."
)

// classify tells what begins with the first bytes of a piece; all says that they are the whole piece.
func classify(first []byte, all bool) l7.Guess {
	for len(first) > 0 && (first[0] == '\r' || first[0] == '\n') {
		first = first[1:]
	}
	if len(first) == 0 {
		return l7.No
	}
	if guess := classifyResponse(first, all); guess != l7.No {
		return guess
	}
	return classifyRequest(first, all)
}

func classifyResponse(first []byte, all bool) l7.Guess {
	const shortest = len("HTTP/1.1 200")
	if len(first) < shortest {
		n := min(len(first), len(versionPrefix))
		return unfinished(string(first[:n]) == versionPrefix[:n], all)
	}
	if _, status := statusLine(first); status == 0 {
		return l7.No
	}
	return l7.Response
}

func classifyRequest(first []byte, all bool) l7.Guess {
	blank := bytes.IndexByte(first[:min(len(first), longestMethod+1)], ' ')
	if blank < 0 {
		return unfinished(beginsMethod(first), all)
	}
	if _, known := knownMethods[string(first[:blank])]; !known {
		return l7.No
	}
	end := bytes.IndexByte(first, '\n')
	switch {
	case end >= 0:
		if _, _, version := requestLine(bytes.TrimSuffix(first[:end], []byte("\r"))); version == "" {
			return l7.No
		}
		return l7.Request
	case blank+1 < len(first) && !isTargetStart(first[blank+1]):
		return l7.No
	case all && len(first) < shortestSure:
		return l7.Perhaps
	}
	return l7.Request
}

// shortestSure is how much of a request line without its end is believed to be one.
const shortestSure = 32

// unfinished is the guess about bytes that may be the beginning of a message.
func unfinished(may, all bool) l7.Guess {
	if may && all {
		return l7.Perhaps
	}
	return l7.No
}

// beginsMethod tells whether a known method begins so.
func beginsMethod(first []byte) bool {
	for method := range knownMethods {
		if len(first) <= len(method) && method[:len(first)] == string(first) {
			return true
		}
	}
	return false
}

// isTargetStart tells whether a target may begin with c: a path, *, or a scheme or host.
func isTargetStart(c byte) bool {
	return c == '/' || c == '*' || c == '[' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}
