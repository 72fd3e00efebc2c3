// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Exchange is a query and its response. It implements [l7.Operation].
type Exchange struct {
	ID        uint16
	Questions []Question // as queried, as many as fit the limits
	// QuestionCount is the number of questions in the query.
	QuestionCount int
	Opcode        uint8
	ResponseCode  int // with the upper bits that EDNS adds; -1 if no response is known
	Answers       int // records of the answer section, as the header counts them
	Truncated     bool
	Authoritative bool
	UDPSize       int // what the requester takes over UDP by EDNS, 0 without EDNS
}

// Question is one question.
type Question struct {
	Name        []byte // in lower case, with escapes and a final dot, as in zone files
	Type, Class uint16
}

// Descriptor is the protocol.
var Descriptor = &l7.Descriptor{
	Name: Name, Number: 2, Operations: []*l7.Semantics{Semantics}, New: func(l7.Options) l7.Protocol { return Protocol{} },
}

// Semantics are those of lookups.
var Semantics = &l7.Semantics{
	Protocol:     Name,
	Metrics:      [l7.Roles]*l7.Metrics{l7.RoleClient: l7.NewMetrics("dns.lookup.duration", "ebpf.dns.lookups.untimed", "{lookup}", "DNS lookups")},
	Dictionaries: []*l7.Dictionary{names},
	SeriesAttributes: func(list []model.Attribute, k *l7.Key) []model.Attribute {
		return l7.AppendText(append(list, model.Text("dns.question.name", k.Target)), "error.type", k.ErrorType)
	},
	LogAttributes: func(list []model.Attribute, r *l7.Record) []model.Attribute {
		list = append(list, model.Text("dns.question.name", r.Texts[recordName]), model.Text("ebpf.dns.question.type", r.Texts[recordType]))
		list = l7.AppendText(list, "error.type", r.ErrorType)
		return r.AppendServer(append(list, model.Text("network.protocol.name", Name)), "")
	},
}

// Semantics implements [l7.Operation].
func (x *Exchange) Semantics() *l7.Semantics {
	if len(x.Questions) == 0 {
		return nil
	}
	return Semantics
}

// names bounds the names that a process looks up.
var names = &l7.Dictionary{Reason: "lookup_names_full", Most: 200, Of: func(k *l7.Key) string { return k.Target }}

// Count implements [l7.Operation]. Lookups of names beyond the bound count in an overflow series.
func (x *Exchange) Count(_ int, _ *l7.Exchange, c *l7.Count) (more bool) {
	known, ok := c.Text(names, x.name())
	if !ok {
		c.Overflow()
		return false
	}
	c.Key.Target = known
	return false
}

// nxDomain is the error type of lookups of names that do not exist.
const nxDomain = "NXDOMAIN"

// Failed implements [l7.Operation]. NXDOMAIN is no failure: resolvers try the domains of a search list until one has the name.
func (x *Exchange) Failed(e *l7.Exchange) bool { return e.ErrorType != "" && e.ErrorType != nxDomain }

// StatusClass implements [l7.Operation].
func (x *Exchange) StatusClass() int { return 0 }

// Texts of a record.
const (
	recordName = iota
	recordType
)

// Record implements [l7.Operation].
func (x *Exchange) Record(_ *l7.Exchange, _ *l7.Redaction, w *l7.RecordWriter) {
	w.Copy(recordName, x.name())
	w.Texts[recordType] = x.typeName()
}

// name returns the queried name without its final dot, except for the root.
func (x *Exchange) name() []byte {
	name := x.Questions[0].Name
	if len(name) > 1 {
		name = bytes.TrimSuffix(name, []byte("."))
	}
	return name
}

// typeName returns the queried record type, as in zone files: RFC 3597 defines the form of types without a name.
func (x *Exchange) typeName() string {
	kind := x.Questions[0].Type
	if name, known := strings.CutPrefix(dnsmessage.Type(kind).String(), "Type"); known {
		return name
	}
	return "TYPE" + strconv.Itoa(int(kind))
}
