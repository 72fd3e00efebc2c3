// SPDX-License-Identifier: Apache-2.0

package httpexchange

import (
	"bytes"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// redaction has what the configuration redacts. The userinfo of URLs is never exported, whatever the configuration.
type redaction l7.Redaction

// CredentialHeaders returns the elements of [l7.Redaction].Headers for headers that carry credentials: of HTTP itself, of the large clouds, of API
// gateways, of sessions and of webhooks.
func CredentialHeaders() []string {
	return []string{
		"authorization", "*-authorization", "*authentication-info", "*-authenticate", "dpop", "sec-websocket-protocol", "sec-token-binding",
		"cookie", "cookie2", "set-cookie", "set-cookie2", "*token", "*api-key", "*apikey", "*-secret", "*-password", "*-jwt-assertion",
		"x-auth-*", "x-session-*", "*session-id", "*sessionid", "x-goog-*", "x-ms-token-*", "x-amzn-oidc-data",
		"signature", "signature-input", "*-signature", "x-signature-*", "*-signature-sha1", "*-signature-256", "*-signature-sha256", "*-signature-ed25519",
		"*-hmac", "*-hmac-sha256", "x-functions-key", "ocp-apim-subscription-key", "*-encryption-customer-key",
	}
}

// Replacements of redacted values.
const (
	redactedHeader = "[redacted]"
	redactedValue  = '?'
)

// header reports whether a header's value is redacted.
func (r *redaction) header(name string) bool {
	for _, pattern := range r.Headers {
		if names(pattern, name) {
			return true
		}
	}
	return false
}

// names reports whether an element of the headers matches a header.
func names(pattern, name string) bool {
	if end, ok := strings.CutPrefix(pattern, "*"); ok {
		return len(name) >= len(end) && strings.EqualFold(name[len(name)-len(end):], end)
	}
	if begin, ok := strings.CutSuffix(pattern, "*"); ok {
		return len(name) >= len(begin) && strings.EqualFold(name[:len(begin)], begin)
	}
	return len(pattern) == len(name) && strings.EqualFold(pattern, name)
}

// appendQuery appends a query whose values are replaced, if the configuration asks for that. A part without a name may itself be a value.
func (r *redaction) appendQuery(to, query []byte) []byte {
	if !r.Query || len(query) == 0 {
		return append(to, query...)
	}
	for i, parts := 0, bytes.Split(query, []byte("&")); i < len(parts); i++ {
		if i > 0 {
			to = append(to, '&')
		}
		to = appendRedacted(to, parts[i])
	}
	return to
}

// appendRedacted appends the name of a value, if it has one, and the replacement of the value.
func appendRedacted(to, value []byte) []byte {
	if name, _, named := bytes.Cut(value, []byte("=")); named {
		to = append(append(to, name...), '=')
	}
	return append(to, redactedValue)
}

// appendPath appends a path. If the configuration asks for it, the values of parameters (;jsessionid=…, by RFC 3986, section 3.3) are
// replaced; the userinfo of URLs in the path, as proxies have them, always is.
func (r *redaction) appendPath(to, path []byte) []byte {
	if bytes.IndexByte(path, '@') >= 0 {
		path = []byte(withoutUsers(string(path)))
	}
	for r.Query {
		begin := bytes.IndexByte(path, ';') + 1
		if begin == 0 {
			break
		}
		to, path = append(to, path[:begin]...), path[begin:]
		end := bytes.IndexAny(path, ";/")
		if end < 0 {
			end = len(path)
		}
		if end > 0 {
			to = appendRedacted(to, path[:end])
		}
		path = path[end:]
	}
	return append(to, path...)
}
