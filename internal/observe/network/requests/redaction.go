// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/body"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
)

// Redaction configures what of requests is never exported.
type Redaction = l7.Redaction

// CredentialHeaders returns the headers that are redacted by default.
func CredentialHeaders() []string { return httpexchange.CredentialHeaders() }

// KnowsCharset reports whether a [BodyRule] may name a charset.
func KnowsCharset(name string) bool { return body.KnowsCharset(name) }
