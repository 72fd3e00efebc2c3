// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

// requestLine takes a request line apart; version is "" if it is none.
func requestLine(line []byte) (method, target []byte, version string) {
	blank := bytes.IndexByte(line, ' ')
	last := len(line) - len(" HTTP/1.1")
	if blank <= 0 || last <= blank || line[last] != ' ' {
		return nil, nil, ""
	}
	version = versionOf(line[last+1:])
	method = line[:blank]
	if version == "" || !isToken(method) {
		return nil, nil, ""
	}
	target = bytes.Trim(line[blank+1:last], " ")
	if len(target) == 0 {
		return nil, nil, ""
	}
	return method, target, version
}

// cutRequestLine takes the beginning of a request line apart; ok says that it may be one.
func cutRequestLine(line []byte) (method, target []byte, ok bool) {
	method, target, found := bytes.Cut(line, []byte(" "))
	if !found || !rfc9110.IsMethod(method) {
		return nil, nil, false
	}
	target, _, _ = bytes.Cut(target, []byte(" ")) // from the version
	return method, target, len(target) > 0 && isTargetStart(target[0])
}

// statusLine takes the beginning of a status line apart; status is 0 if it is none.
func statusLine(line []byte) (version string, status int) {
	const digits = len("HTTP/1.1 ")
	if len(line) < digits+3 || line[digits-1] != ' ' || len(line) > digits+3 && line[digits+3] != ' ' && line[digits+3] != '\r' && line[digits+3] != '\n' {
		return "", 0
	}
	version = versionOf(line[:digits-1])
	for _, c := range line[digits : digits+3] {
		if c < '0' || c > '9' {
			return "", 0
		}
		status = status*10 + int(c-'0')
	}
	if version == "" || status < 100 {
		return "", 0
	}
	return version, status
}

// versionOf is the version that the bytes name, or "". Minor versions above 1 are read as 1.1, as RFC 9110, section 2.5 has it.
func versionOf(name []byte) string {
	if len(name) != len(versionPrefix)+1 || string(name[:len(versionPrefix)]) != versionPrefix {
		return ""
	}
	switch minor := name[len(versionPrefix)]; {
	case minor == '0':
		return "1.0"
	case '1' <= minor && minor <= '9':
		return "1.1"
	}
	return ""
}

// isToken reports whether the bytes may be a method or a field's name.
func isToken(name []byte) bool {
	for _, c := range name {
		if !tokenBytes[c] {
			return false
		}
	}
	return len(name) > 0
}

var tokenBytes = func() (is [256]bool) {
	for c := range is {
		is[c] = c > ' ' && c < 0x7f && !strings.ContainsRune("\"(),/:;<=>?@[\\]{}", rune(c))
	}
	return is
}()

// splitTarget takes a target apart in any of its four forms, as [rfc9110.SplitTarget] does.
func splitTarget(method string, raw []byte) rfc9110.Target {
	if method == http.MethodConnect {
		return rfc9110.Target{Host: rfc9110.WithoutUserinfo(raw)}
	}
	return rfc9110.SplitTarget(raw)
}
