// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bytes"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

const versionPrefix = "HTTP/1."

// classify returns what begins with the first bytes of a piece; all is set if they are the whole piece.
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
		return unfinished(rfc9110.BeginsMethod(first), all)
	}
	known := rfc9110.IsMethod(first[:blank])
	if !known && !mayBeMethod(first[:blank]) {
		return l7.No
	}
	end := bytes.IndexByte(first, '\n')
	switch {
	case end >= 0:
		if _, target, version := requestLine(bytes.TrimSuffix(first[:end], []byte("\r"))); version == "" || !known && !isTargetStart(target[0]) {
			return l7.No
		}
		return l7.Request
	case !known: // the end of the line decides
		return l7.No
	case blank+1 < len(first) && !isTargetStart(first[blank+1]):
		return l7.No
	case all && len(first) < shortestSure:
		return l7.Perhaps
	}
	return l7.Request
}

// longestMethod bounds the methods that are looked for.
const longestMethod = 32

// mayBeMethod reports whether an unknown method may be called so: a token in capitals, and not what is left of one that is known
// where the first bytes of a request were not seen, or were read by themselves.
func mayBeMethod(name []byte) bool {
	if rfc9110.EndsMethod(name) {
		return false
	}
	for _, c := range name {
		if !('A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return len(name) > 0 && 'A' <= name[0] && name[0] <= 'Z'
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

// isTargetStart reports whether a target may begin with c: a path, *, or a scheme or host.
func isTargetStart(c byte) bool {
	return c == '/' || c == '*' || c == '[' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}
