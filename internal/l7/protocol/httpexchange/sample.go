// SPDX-License-Identifier: Apache-2.0

package httpexchange

import (
	"errors"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/grpc"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// message is a request or a response that is exported with its content.
type message l7.Sample

// SampleAttributes appends the fields of a message and the text of its body.
func SampleAttributes(list []model.Attribute, s *l7.Sample, redact *l7.Redaction) []model.Attribute {
	m, r := (*message)(s), (*redaction)(redact)
	fields := parseHead(m.Head)
	for _, f := range fields {
		list = append(list, model.List("http."+m.Message+".header."+f.name, r.values(f.name, f.values)...))
	}
	if len(m.Body) == 0 && !m.Cut {
		return list
	}
	return append(list, m.bodyAttributes(fields, r)...)
}

// encodingFields are the names of the header that has the coding of a body, or of each message of gRPC.
var encodingFields = map[bool]string{false: "content-encoding", true: "grpc-encoding"}

// bodyAttributes returns the attribute with the body's text, or with the reason why there is none.
func (m *message) bodyAttributes(fields []field, redact *redaction) (list []model.Attribute) {
	kind := valueOf(fields, "content-type")
	isCall := grpc.Is([]byte(kind))
	encoding := valueOf(fields, encodingFields[isCall])
	if encoding != "" {
		list = append(list, model.Text("ebpf.body.encoding", encoding))
	}
	var text string
	var cut bool
	var err error
	if isCall {
		text, cut, err = m.callText(encoding, kind)
	} else {
		text, cut, err = m.text(encoding, kind, redact)
	}
	if cut {
		list = append(list, model.Bool("ebpf.body.cut", true))
	}
	switch {
	case errors.Is(err, errNoText):
		return append(list, model.Text("ebpf.body.error", bodyNoText))
	case err != nil:
		return append(list, model.Text("ebpf.body.error", err.Error()))
	}
	return append(list, model.Lines("ebpf.body.content", text))
}
