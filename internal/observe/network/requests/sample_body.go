// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"errors"
	"mime"
	"unicode/utf8"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/body"
)

// bodyNoText is what is told in place of a body that is no text.
const bodyNoText = "not_text"

// errNoText says that a body is no text.
var errNoText = errors.New("the body is no text")

// formType is the Content-Type of bodies that are written as queries are.
const formType = "application/x-www-form-urlencoded"

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
	if media, _, err := mime.ParseMediaType(kind); err == nil && media == formType {
		decoded = redact.appendQuery(nil, decoded)
	}
	return string(decoded), cut, nil
}
