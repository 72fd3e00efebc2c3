// SPDX-License-Identifier: Apache-2.0

package body

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// ErrUnsupported says that a coding or charset is not known here.
var ErrUnsupported = errors.New("it is not supported")

// mostCodings bounds how often a body may be encoded: each coding multiplies what the next one has to do.
const mostCodings = 2

// Decode returns the text of a body, at most limit bytes of it, by its message's Content-Encoding and Content-Type, either of which may be
// empty. Where the latter names no charset it is the given one; empty: UTF-8. cut says that there is more, or that the body ended early. Its error says why the body could not be decoded: ErrUnsupported, or
// that it is none of that coding.
func Decode(body []byte, contentEncoding, contentType, charset string, limit int) (text []byte, cut bool, err error) {
	toUTF8, err := charsetReader(contentType, charset)
	if err != nil {
		return nil, false, err
	}
	var r io.Reader = bytes.NewReader(body)
	codings := splitCodings(contentEncoding)
	if len(codings) > mostCodings {
		return nil, false, fmt.Errorf("decoding a body: %d codings, of which at most %d are undone: %w", len(codings), mostCodings, ErrUnsupported)
	}
	for i := len(codings) - 1; i >= 0; i-- {
		if r, err = decoder(codings[i], r); err != nil {
			return nil, errors.Is(err, io.ErrUnexpectedEOF), err
		}
		r = &bounded{r, mostWork * (limit + 1)}
	}
	text, err = io.ReadAll(io.LimitReader(toUTF8(r), int64(limit)+1))
	switch {
	case len(text) > limit:
		return text[:limit], true, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return text, true, nil
	case err != nil && len(text) == 0:
		return nil, false, fmt.Errorf("decoding a body of Content-Encoding %q: %w", contentEncoding, err)
	}
	return text, err != nil, nil
}

// mostWork is how many bytes are read between two steps for each byte that may come out in the end: much may stand for nothing, such as
// members of gzip that are empty and changes of a charset.
const mostWork = 16

// bounded ends what is read early after so many bytes.
type bounded struct {
	r    io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// splitCodings are the codings in the order in which they were applied.
func splitCodings(contentEncoding string) (codings []string) {
	for coding := range strings.SplitSeq(contentEncoding, ",") {
		if coding = strings.ToLower(strings.TrimSpace(coding)); coding != "" && coding != "identity" {
			codings = append(codings, coding)
		}
	}
	return codings
}

// decoder undoes one coding: RFC 9110, section 8.4.1.
func decoder(coding string, r io.Reader) (decoded io.Reader, err error) {
	switch coding {
	case "gzip", "x-gzip":
		decoded, err = gzip.NewReader(r)
	case "deflate":
		decoded, err = inflate(r)
	default:
		return nil, fmt.Errorf("decoding a body of Content-Encoding %q: %w", coding, ErrUnsupported)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("decoding a body of Content-Encoding %q: %w", coding, err)
	}
	return decoded, nil
}

// inflate undoes deflate, which is zlib's format by the RFC and without zlib's head by some programs.
func inflate(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	head, err := buffered.Peek(2)
	if err != nil {
		return nil, err
	}
	const method, deflate, multiple = 0x0f, 8, 31 // RFC 1950, section 2.2
	if head[0]&method == deflate && (int(head[0])<<8|int(head[1]))%multiple == 0 {
		return zlib.NewReader(buffered)
	}
	return flate.NewReader(buffered), nil
}

// charsetReader turns the charset that a Content-Type names, else the given one, into UTF-8. Without any it is left as it is.
func charsetReader(contentType, charset string) (func(io.Reader) io.Reader, error) {
	name := charset
	if _, parameters, err := mime.ParseMediaType(contentType); err == nil && parameters["charset"] != "" {
		name = parameters["charset"] // a Content-Type that cannot be read names nothing
	}
	if name == "" || strings.EqualFold(name, "utf-8") {
		return func(r io.Reader) io.Reader { return r }, nil
	}
	from, err := htmlindex.Get(name)
	if err != nil {
		return nil, fmt.Errorf("decoding a body of charset %q: %w", name, ErrUnsupported)
	}
	// A byte order mark says more than the name, and is no text (Encoding Standard, decode).
	return func(r io.Reader) io.Reader { return transform.NewReader(r, unicode.BOMOverride(from.NewDecoder())) }, nil
}

// KnowsCharset reports whether characters of a charset can be decoded.
func KnowsCharset(name string) bool {
	_, err := htmlindex.Get(name)
	return err == nil
}
