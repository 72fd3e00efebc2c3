// SPDX-License-Identifier: Apache-2.0

package http1

import (
	"bytes"
	"math"
	"net/http"
	"strings"
)

const (
	noLength   int64 = -1
	maxLength  int64 = math.MaxInt64 >> 2
	badLength  int64 = -2
	chunkedEnd       = "chunked"
)

// framing is what a head says about where its message ends.
type framing struct {
	length  int64 // Content-Length, noLength or badLength
	encoded bool  // there is a Transfer-Encoding
	chunked bool  // whose last coding is chunked
}

// extent is how a body ends.
type extent uint8

const (
	extentNone extent = iota
	extentLength
	extentChunked
	extentClose // where the connection ends
	extentUnknown
	extentLeave   // another protocol follows at once
	extentInterim // none, and the response proper follows
)

// addLength takes a value of Content-Length, which may be a list of equal numbers: RFC 9112, section 6.3, item 5.
func (f *framing) addLength(value []byte) {
	for len(value) > 0 {
		var one []byte
		one, value, _ = bytes.Cut(value, []byte(","))
		n, ok := number(bytes.Trim(one, " \t"), 10)
		if !ok || f.length != noLength && f.length != n {
			f.length = badLength
			return
		}
		f.length = n
	}
}

// addEncoding takes a value of Transfer-Encoding.
func (f *framing) addEncoding(value []byte) {
	f.encoded = true
	last := value[bytes.LastIndexByte(value, ',')+1:]
	f.chunked = strings.EqualFold(string(bytes.Trim(last, " \t")), chunkedEnd)
}

// ofRequest is how a request's body ends: RFC 9112, section 6.3.
func (f *framing) ofRequest(version string) extent {
	switch {
	case f.encoded && (!f.chunked || version == "1.0"), f.length == badLength && !f.encoded:
		return extentUnknown
	case f.chunked:
		return extentChunked
	case f.length > 0:
		return extentLength
	}
	return extentNone
}

// ofResponse is how a response's body ends; method is the request's, or "".
func (f *framing) ofResponse(method string, status int, version string) extent {
	switch {
	case status == http.StatusSwitchingProtocols, method == http.MethodConnect && status/100 == 2:
		return extentLeave
	case status/100 == 1:
		return extentInterim
	case method == http.MethodHead, status == http.StatusNoContent, status == http.StatusNotModified:
		return extentNone
	case f.encoded && f.chunked && version != "1.0":
		return extentChunked
	case f.encoded, f.length == noLength:
		return extentClose
	case f.length == badLength:
		return extentUnknown
	case f.length > 0:
		return extentLength
	}
	return extentNone
}

// chunkSize reads the line before a chunk: RFC 9112, section 7.1.
func chunkSize(line []byte) (size int64, ok bool) {
	digits, _, _ := bytes.Cut(line, []byte(";"))
	return number(bytes.Trim(digits, " \t"), 16)
}

// number reads digits of the base, 10 or 16, up to maxLength.
func number(digits []byte, base int64) (n int64, ok bool) {
	for _, c := range digits {
		d := int64(digitValues[c]) - 1
		if d < 0 || d >= base || n > maxLength/base {
			return 0, false
		}
		n = n*base + d
	}
	return n, len(digits) > 0
}

// digitValues are the values of hexadecimal digits, by one too high: 0 is none.
var digitValues = func() (values [256]uint8) {
	for i, c := range []byte("0123456789abcdef") {
		values[c] = uint8(i + 1)
		values[bytes.ToUpper([]byte{c})[0]] = uint8(i + 1)
	}
	return values
}()
