// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"strings"
	"unicode/utf8"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/body"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpc"
)

// mostCallMessages bounds how many messages of one side of a call are looked into: each may be packed by itself.
const mostCallMessages = 256

// callText is the text of the messages that one side of a call by gRPC has sent, one in a line; cut says that it goes on. Messages of
// Protocol Buffers are told by the numbers of their fields.
func (m *sampledMessage) callText(encoding, kind string) (text string, cut bool, err error) {
	var told []byte
	n := 0
	cut = m.cut
	for message := range grpc.MessagesOf(m.body) {
		if n == mostCallMessages || len(told) > m.rule.MaxBytes {
			cut = true
			break
		}
		if n++; n > 1 {
			told = append(told, '\n')
		}
		packing := ""
		if message.Compressed {
			packing = encoding
		}
		data, goesOn, err := body.Decode(message.Data, packing, "", "", m.rule.MaxBytes)
		if err != nil {
			return "", cut, err
		}
		goesOn = goesOn || message.Cut
		cut = cut || goesOn
		ok := false
		if told, ok = appendCallMessage(told, data, kind, m.rule.MaxBytes+1, goesOn); !ok {
			return "", cut, errNoText
		}
	}
	if len(told) > m.rule.MaxBytes {
		told, cut = told[:m.rule.MaxBytes], true
	}
	return string(body.WholeRunes(told)), cut, nil
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
