// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/body"
)

// bodyNoText is what is told in place of a body that is no text.
const bodyNoText = "not_text"

// errNoText says that a body is no text.
var errNoText = errors.New("the body is no text")

// formType is the Content-Type of bodies that are written as queries are.
const formType = "application/x-www-form-urlencoded"

// isForm tells whether a body of this Content-Type is a form, or may be one. Servers read forms whose parameters are no valid ones, and
// one of the types where there are several; the line that tells it may be one that was left out.
func (m *sampledMessage) isForm(kind string) bool {
	if kind == "" {
		return m.moreFields > 0
	}
	for one := range strings.SplitSeq(kind, ",") {
		media, _, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(media), formType) {
			return true
		}
	}
	return false
}

// KnowsCharset tells whether a [BodyRule] may name a charset.
func KnowsCharset(name string) bool { return body.KnowsCharset(name) }

// text is the body as it is told; cut says that it goes on.
func (m *sampledMessage) text(encoding, kind string, redact *Redaction) (text string, cut bool, err error) {
	decoded, cut, err := body.Decode(m.body, encoding, kind, m.rule.Charset, m.rule.MaxBytes)
	cut = cut || m.cut
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
		if most := m.rule.MaxBytes; len(decoded) > most { // of empty values by what is told in their place
			decoded, cut = body.WholeRunes(decoded[:most]), true
		}
	}
	return string(decoded), cut, nil
}
