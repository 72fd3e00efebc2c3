// SPDX-License-Identifier: Apache-2.0

// Package httpexchange is what an exchange of HTTP says in any version: the series that it counts in, the attributes of metrics, events, spans
// and samples, errors, and redaction. The parsers of the versions are in packages of their own.
package httpexchange
