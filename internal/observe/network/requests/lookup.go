// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// nxDomain is the error type of lookups of names that are not there.
const nxDomain = "NXDOMAIN"

// failed tells whether an exchange is one that failed. That a name is not there is an answer:
// resolvers go through the domains of a list until one has it.
func failed(e *l7.Exchange) bool {
	return e.ErrorType != "" && (e.DNS == nil || e.ErrorType != nxDomain)
}

// nameOf is the name that was asked for, without its final dot, but for the root's.
func nameOf(d *l7.DNS) []byte {
	name := d.Questions[0].Name
	if len(name) > 1 {
		name = bytes.TrimSuffix(name, []byte("."))
	}
	return name
}

// kindOf is the type of record that was asked for, as in zone files: RFC 3597 has those
// without a name.
func kindOf(d *l7.DNS) string {
	kind := d.Questions[0].Type
	if name, known := strings.CutPrefix(dnsmessage.Type(kind).String(), "Type"); known {
		return name
	}
	return "TYPE" + strconv.Itoa(int(kind))
}

// appendLookup appends the attributes of a lookup by the conventions.
func (r *Request) appendLookup(list []model.Attribute) []model.Attribute {
	list = append(list, model.Text("dns.question.name", r.name), model.Text("ebpf.dns.question.type", r.kind))
	if r.errorType != "" {
		list = append(list, model.Text("error.type", r.errorType))
	}
	return r.appendServer(append(list, model.Text("network.protocol.name", dns.Name)))
}
