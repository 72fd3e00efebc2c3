// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/hpack"
)

// Tags of the fields that the parser itself uses. Those that are wanted follow.
const (
	tagMethod hpack.Tag = 1 + iota
	tagPath
	tagScheme
	tagAuthority
	tagConnectProtocol
	tagStatus
	tagHost
	tagContentType
	tagCookie
	tagGRPCStatus
	tagGRPCTimeout
	tagAsked
)

// usedNames are the names of those fields.
var usedNames = map[string]hpack.Tag{
	":method": tagMethod, ":path": tagPath, ":scheme": tagScheme, ":authority": tagAuthority, ":protocol": tagConnectProtocol, ":status": tagStatus,
	"host": tagHost, "content-type": tagContentType, "cookie": tagCookie, "grpc-status": tagGRPCStatus, "grpc-timeout": tagGRPCTimeout,
}

// wanted are the fields whose values are kept.
type wanted struct {
	names             *hpack.Names
	tags              int
	request, response []hpack.Tag // asked for, in the order in which they were
}

func newWanted(request, response []string) *wanted {
	tags := make(map[string]hpack.Tag, len(usedNames)+len(request)+len(response))
	for name, tag := range usedNames {
		tags[name] = tag
	}
	w := &wanted{tags: int(tagAsked)}
	of := func(asked []string) (list []hpack.Tag) {
		for _, name := range asked {
			name = strings.ToLower(name)
			if _, known := tags[name]; !known {
				tags[name] = hpack.Tag(w.tags)
				w.tags++
			}
			list = append(list, tags[name])
		}
		return list
	}
	w.request, w.response = of(request), of(response)
	w.names = hpack.NewNames(tags)
	return w
}

// value is where a field's value lies.
type value struct {
	start, end int
	there      bool
	unknown    bool // it was sent, in a way that only those understand who have seen what was sent before, or it was too long
}

// shape is what a header block is, as far as its fields are known.
type shape uint8

const (
	shapeUnknown  shape = iota
	shapeRequest        // it has pseudo-fields of requests
	shapeResponse       // it has a status
	shapeTrailers       // it has no pseudo-fields
)

// fields are those of one header block.
type fields struct {
	bytes  []byte
	values []value // by tag
	shape  shape
	// regular says that a field was seen that is not a pseudo-field, so that no pseudo-field follows; hidden, that one without a known name,
	// or bytes that are missing, were there before, so that it is unknown which pseudo-fields there are.
	regular, hidden bool
	cut             bool // values are missing or short
	unseen          bool // of these because they refer to what was not seen, or are too long
}

func (f *fields) reset(tags int) {
	if cap(f.values) < tags {
		f.values = make([]value, tags)
	}
	f.values = f.values[:tags]
	clear(f.values)
	f.bytes = f.bytes[:0]
	f.shape, f.regular, f.hidden, f.cut, f.unseen = shapeUnknown, false, false, false, false
}

// miss says that the rest of the block is missing.
func (f *fields) miss() {
	f.cut = true
	f.hidden = f.hidden || !f.regular
}

// add takes the next field, as far as the limit allows.
func (f *fields) add(field *hpack.Field, limit int) {
	tag := field.Tag
	if tag == hpack.UnknownName {
		f.unseen = true
		f.miss()
		return
	}
	f.see(tag)
	if tag == hpack.Unwanted {
		return
	}
	to := &f.values[tag]
	switch {
	case !field.Known:
		to.there, to.unknown, f.cut, f.unseen = true, true, true, true
	case !to.there:
		to.start = len(f.bytes)
		to.there = true
		f.extend(to, field.Value, limit)
	case tag > tagStatus: // a pseudo-field comes only once
		f.join(to, tag, field.Value, limit)
	}
}

// see notes what the field means for the block.
func (f *fields) see(tag hpack.Tag) {
	switch {
	case tag == hpack.Unwanted || tag > tagStatus:
		if f.shape == shapeUnknown && !f.hidden && !f.regular {
			f.shape = shapeTrailers
		}
		f.regular = true
	case f.regular:
	case tag == tagStatus:
		f.shape = shapeResponse
	default:
		f.shape = shapeRequest
	}
}

// join gives a field another value: RFC 9110, section 5.3, and for cookies RFC 9113, section 8.2.3.
func (f *fields) join(to *value, tag hpack.Tag, more []byte, limit int) {
	if to.end != len(f.bytes) {
		start := len(f.bytes)
		old := f.bytes[to.start:to.end]
		to.start, to.end = start, start
		f.extend(to, old, limit)
	}
	separator := ", "
	if tag == tagCookie {
		separator = "; "
	}
	f.extend(to, []byte(separator), limit)
	f.extend(to, more, limit)
}

// extend puts more to the end of a value that lies last.
func (f *fields) extend(to *value, more []byte, limit int) {
	n := max(0, min(len(more), limit-len(f.bytes)))
	f.cut = f.cut || n < len(more)
	f.bytes = append(f.bytes, more[:n]...)
	to.end = len(f.bytes)
}

// get is a field's value, nil if there is none or it is unknown.
func (f *fields) get(tag hpack.Tag) []byte {
	if int(tag) >= len(f.values) || !f.values[tag].there || f.values[tag].unknown {
		return nil
	}
	return f.values[tag].of(f.bytes)
}

func (v *value) of(bytes []byte) []byte { return bytes[v.start:v.end:v.end] }

// pseudo is a pseudo-field's value; UnknownText where there is, or may be, an unknown one.
func (f *fields) pseudo(tag hpack.Tag) []byte {
	if value := f.get(tag); value != nil {
		return value
	}
	if f.hidden || int(tag) < len(f.values) && f.values[tag].unknown {
		return unknownText
	}
	return nil
}

var unknownText = []byte(l7.UnknownText)

// appendAsked appends the values of the fields that were asked for.
func (f *fields) appendAsked(values [][]byte, asked []hpack.Tag) [][]byte {
	for _, tag := range asked {
		values = append(values, f.get(tag))
	}
	return values
}

// held is the number of bytes of memory held.
func (f *fields) held() int { return cap(f.bytes) + cap(f.values)*valueSize }
