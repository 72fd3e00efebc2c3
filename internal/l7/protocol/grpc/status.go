// SPDX-License-Identifier: Apache-2.0

package grpc

import (
	"net/http"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// Statuses by name, as rpc.response.status_code has them, that this package itself speaks of.
const (
	OK               = "OK"
	Cancelled        = "CANCELLED"
	UnknownStatus    = "UNKNOWN"
	DeadlineExceeded = "DEADLINE_EXCEEDED"
	Unavailable      = "UNAVAILABLE"

	permissionDenied  = "PERMISSION_DENIED"
	resourceExhausted = "RESOURCE_EXHAUSTED"
	unimplemented     = "UNIMPLEMENTED"
	internal          = "INTERNAL"
	dataLoss          = "DATA_LOSS"
	unauthenticated   = "UNAUTHENTICATED"
)

// names of statuses, by their number.
var names = [...]string{
	OK, Cancelled, UnknownStatus, "INVALID_ARGUMENT", DeadlineExceeded, "NOT_FOUND", "ALREADY_EXISTS", permissionDenied, resourceExhausted,
	"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", unimplemented, internal, Unavailable, dataLoss, unauthenticated,
}

// Status is the name of the status that a grpc-status says; what is none of gRPC's is UNKNOWN, as for its clients.
func Status(value []byte) string {
	number := 0
	for _, c := range value {
		if c < '0' || c > '9' || number >= len(names) {
			return UnknownStatus
		}
		number = number*10 + int(c-'0')
	}
	if len(value) == 0 || number >= len(names) {
		return UnknownStatus
	}
	return names[number]
}

// StatusOfHTTP is the status of a response that does not say one, by the status of HTTP: what gRPC's clients make of it.
func StatusOfHTTP(status int) string {
	switch status {
	case http.StatusBadRequest:
		return internal
	case http.StatusUnauthorized:
		return unauthenticated
	case http.StatusForbidden:
		return permissionDenied
	case http.StatusNotFound:
		return unimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Unavailable
	}
	return UnknownStatus
}

// StatusOfReset is the status of a call whose stream was reset with an error of HTTP/2: gRPC's mapping of RFC 9113, section 7.
func StatusOfReset(code uint32) string {
	switch code {
	case 0, 1, 2, 3, 4, 6, 9, 10: // no error, errors of protocol, flow control, settings, frame size, compression, tunnel
		return internal
	case 7: // the stream was refused
		return Unavailable
	case 8:
		return Cancelled
	case 11: // enhance your calm
		return resourceExhausted
	case 12: // inadequate security
		return permissionDenied
	}
	return UnknownStatus
}

// IsError reports whether the conventions count a status as an error: for clients all but OK, for servers those that are their fault.
func IsError(role l7.Role, status string) bool {
	if role != l7.RoleServer {
		return status != OK && status != ""
	}
	switch status {
	case UnknownStatus, DeadlineExceeded, unimplemented, internal, Unavailable, dataLoss:
		return true
	}
	return false
}
