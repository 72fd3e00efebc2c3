// SPDX-License-Identifier: Apache-2.0

package l7

import (
	"net/netip"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/tracecontext"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// RecordTexts is the number of texts of a record.
	RecordTexts = 9
	// RecordNumbers is the number of numbers of a record.
	RecordNumbers = 2
)

// Record is what is kept of an exchange until it is exported by itself. What Texts and Numbers have is up to the protocol.
type Record struct {
	Semantics *Semantics
	Role      Role
	// TLS: the exchange was carried within TLS.
	TLS bool
	// Peer is the remote address of the connection.
	Peer      netip.AddrPort
	ErrorType string
	// Target is that of the exchange's first series.
	Target  string
	Texts   [RecordTexts]string
	Numbers [RecordNumbers]int64
	// Sizes are those of the request's body, the response's body, and the whole messages, or [Unknown].
	Sizes [4]int64
	// Trace is the trace context that the request carries.
	Trace tracecontext.Context
	// Bytes is the memory of the texts that were copied.
	Bytes int
}

// ServerOf returns the host and port of the server: the host that the request names, else, of a client's exchange, the address that its
// connection leads to. They are "" and 0 if unknown.
func (r *Record) ServerOf(named string) (host string, port int64) {
	host, port = SplitHost(named)
	if host == "" && r.Role == RoleClient && r.Peer.IsValid() {
		host = r.Peer.Addr().String()
	}
	if port == 0 && r.Role == RoleClient {
		port = int64(r.Peer.Port())
	}
	return host, port
}

// AppendServer appends the server; named is the host that the request names, "" if it names none.
func (r *Record) AppendServer(list []model.Attribute, named string) []model.Attribute {
	host, port := r.ServerOf(named)
	return AppendServer(list, host, port)
}

// RecordWriter writes a record. The copied texts share one allocation.
type RecordWriter struct {
	*Record
	buffer []byte
	copied [RecordTexts]copiedText
	copies int
}

// copiedText is a text of the record that ends at a byte of the buffer, and begins where the one before ends.
type copiedText struct{ text, end int }

// Begin begins an empty record.
func (w *RecordWriter) Begin(r *Record) { w.Record, w.buffer, w.copies = r, w.buffer[:0], 0 }

// Copy copies a text. Each text is copied at most once.
func (w *RecordWriter) Copy(text int, value []byte) { w.Append(text, append(w.buffer, value...)) }

// Buffer returns the bytes of the texts so far. [RecordWriter.Append] takes them with those of another text at the end.
func (w *RecordWriter) Buffer() []byte { return w.buffer }

// Append takes a text that was appended to the bytes of [RecordWriter.Buffer].
func (w *RecordWriter) Append(text int, buffer []byte) {
	if len(buffer) == len(w.buffer) {
		return // it is empty
	}
	w.copied[w.copies] = copiedText{text, len(buffer)}
	w.buffer = buffer
	w.copies++
}

// longestKept bounds the buffer that is kept for the next record.
const longestKept = 64 << 10

// End completes the record.
func (w *RecordWriter) End() {
	all, begin := string(w.buffer), 0
	for _, c := range w.copied[:w.copies] {
		w.Texts[c.text] = all[begin:c.end]
		begin = c.end
	}
	w.Bytes = len(all)
	w.Record = nil
	if cap(w.buffer) > longestKept {
		w.buffer = nil
	}
}

// Sample is the content of a message of an exchange that is exported with it.
type Sample struct {
	// Message is "request" or "response".
	Message string
	// Head is as in [Content]. MoreFields is the number of its lines that are left out.
	Head       []byte
	MoreFields int
	// Body is the beginning of the body as it was transferred. Cut: it is longer.
	Body []byte
	Cut  bool
	// MaxBytes bounds the text that is exported of the body. Charset applies if the message names none; empty: UTF-8.
	MaxBytes int
	Charset  string
}
