// SPDX-License-Identifier: Apache-2.0

package httpexchange

import (
	"strings"
	"unicode/utf8"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/body"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpc"
)

// mostCallMessages bounds how many messages of one side of a call are decoded: each may be compressed separately.
const mostCallMessages = 256

// callText returns the text of the messages that one side of a gRPC call sent, one per line; cut: there is more. Messages of Protocol Buffers
// are exported by the numbers of their fields.
func (m *message) callText(encoding, kind string) (text string, cut bool, err error) {
	var out []byte
	n := 0
	cut = m.Cut
	for message := range grpc.MessagesOf(m.Body) {
		if n == mostCallMessages || len(out) > m.MaxBytes {
			cut = true
			break
		}
		if n++; n > 1 {
			out = append(out, '\n')
		}
		packing := ""
		if message.Compressed {
			packing = encoding
		}
		data, goesOn, err := body.Decode(message.Data, packing, "", "", m.MaxBytes)
		if err != nil {
			return "", cut, err
		}
		goesOn = goesOn || message.Cut
		cut = cut || goesOn
		ok := false
		if out, ok = appendCallMessage(out, data, kind, m.MaxBytes+1, goesOn); !ok {
			return "", cut, errNoText
		}
	}
	if len(out) > m.MaxBytes {
		out, cut = out[:m.MaxBytes], true
	}
	return string(body.WholeRunes(out)), cut, nil
}

// appendCallMessage appends a message by its Content-Type; without a format it is one of Protocol Buffers.
func appendCallMessage(to, data []byte, kind string, limit int, cut bool) (_ []byte, ok bool) {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ";")
	if _, format, named := strings.Cut(kind, "+"); !named || strings.TrimSpace(format) == "proto" {
		return body.AppendProtobuf(to, data, limit, cut)
	}
	if cut {
		data = body.WholeRunes(data)
	}
	return append(to, data...), utf8.Valid(data)
}
