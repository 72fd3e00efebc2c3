// SPDX-License-Identifier: Apache-2.0

package http2

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/hpack"
)

// prefaceSure is how much of the preface is in no other protocol.
const prefaceSure = len("PRI * HTTP/2.0")

// classify returns what begins with the first bytes of a piece; all is set if they are the whole piece.
func (w *wanted) classify(first []byte, all bool) l7.Guess {
	if len(first) == 0 {
		return l7.No
	}
	n := min(len(first), len(preface))
	if string(first[:n]) == preface[:n] {
		if n >= prefaceSure {
			return l7.Request
		}
		return perhaps(all)
	}
	if first[0] != 0 { // as that of no frame of usual length
		return l7.No
	}
	return w.classifyFrames(first, all)
}

func perhaps(all bool) l7.Guess {
	if all {
		return l7.Perhaps
	}
	return l7.No
}

// classifyFrames reports whether frames begin here, as on a connection that was open before. Fields decide whose they are.
func (w *wanted) classifyFrames(first []byte, all bool) l7.Guess {
	if len(first) < headSize {
		return l7.No
	}
	guess, valid := l7.Either, true
	r := follow(first, all, usualFrame, func(f frame, content []byte) {
		if f.kind == kindHeaders && guess == l7.Either && valid {
			guess, valid = w.guessFields(&f, content)
		}
	})
	switch {
	case r.frames == 0, !valid:
		return l7.No
	case guess != l7.Either && r.sure(), r.frames > 2, r.frames > 1 && r.whole:
		return guess
	}
	return perhaps(all)
}

// guessFields guesses by what is known of a header block whose it is. What cannot be read as one is not valid.
func (w *wanted) guessFields(f *frame, content []byte) (guess l7.Guess, valid bool) {
	whole := int64(len(content)) == f.length
	if int64(len(content)) < f.prefix() {
		return l7.Either, true
	}
	padding := 0
	if f.has(flagPadded) {
		padding = int(content[0])
	}
	content = content[f.prefix():]
	if whole {
		content = content[:max(0, len(content)-padding)]
	}
	var fields fields
	fields.reset(w.tags)
	decoder := hpack.NewDecoder(w.names, hpack.Limits{Table: hpack.DefaultTableSize, Text: usualFrame}, func(f *hpack.Field) { fields.add(f, 0) })
	if decoder.Write(content) != nil || whole && f.has(flagEndHeaders) && decoder.End() != nil {
		return l7.No, false
	}
	switch {
	case fields.shape == shapeRequest && f.has(flagEndHeaders):
		return l7.Request, true
	case fields.shape == shapeResponse && f.has(flagEndHeaders):
		return l7.Response, true
	}
	return l7.Either, true
}
