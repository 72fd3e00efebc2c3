// SPDX-License-Identifier: Apache-2.0

package rfc9110

import (
	"net/http"
	"strconv"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

const statuses = 1000

// statusTexts are the statuses as error.type has them.
var statusTexts = func() (texts [statuses]string) {
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	return texts
}()

// ErrorType is the conventions' error.type: a server's own failures, and for clients all that is refused. A status of 0 is none. The
// cause is that of what ended without a response.
func ErrorType(role l7.Role, outcome l7.Outcome, cause l7.Cause, status int) string {
	least := http.StatusBadRequest
	if role == l7.RoleServer {
		least = http.StatusInternalServerError
	}
	switch {
	case outcome == l7.Aborted:
		return l7.ErrorAborted
	case outcome == l7.Unanswered:
		return l7.ErrorOfUnanswered(role, cause)
	case status >= least:
		return statusTexts[status]
	}
	return ""
}

// Status reads a status, which has three digits; 0 if it is none.
func Status(digits []byte) (status int) {
	if len(digits) != 3 || digits[0] == '0' {
		return 0
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0
		}
		status = status*10 + int(c-'0')
	}
	return status
}
