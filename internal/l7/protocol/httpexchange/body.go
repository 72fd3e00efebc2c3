// SPDX-License-Identifier: Apache-2.0

package httpexchange

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/body"
)

// bodyNoText is the reason exported in place of a body that is not text.
const bodyNoText = "not_text"

// errNoText: the body is not text.
var errNoText = errors.New("the body is no text")

// formType is the Content-Type of bodies that are encoded as queries are.
const formType = "application/x-www-form-urlencoded"

// isForm reports whether a body of this Content-Type is a form, or may be one. Servers accept forms whose parameters are invalid, and one of
// several types; the header line with the type may be one that was left out.
func (m *message) isForm(kind string) bool {
	if kind == "" {
		return m.MoreFields > 0
	}
	for one := range strings.SplitSeq(kind, ",") {
		media, _, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(media), formType) {
			return true
		}
	}
	return false
}

// text returns the body as it is exported; cut: the body is longer.
func (m *message) text(encoding, kind string, redact *redaction) (text string, cut bool, err error) {
	decoded, cut, err := body.Decode(m.Body, encoding, kind, m.Charset, m.MaxBytes)
	cut = cut || m.Cut
	if err != nil {
		return "", cut, err
	}
	if cut {
		decoded = body.WholeRunes(decoded)
	}
	if !utf8.Valid(decoded) {
		return "", cut, errNoText
	}
	if m.isForm(kind) {
		decoded = redact.appendQuery(nil, decoded)
		if most := m.MaxBytes; len(decoded) > most { // empty values are replaced by a longer text
			decoded, cut = body.WholeRunes(decoded[:most]), true
		}
	}
	return string(decoded), cut, nil
}
