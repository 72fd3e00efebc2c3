// SPDX-License-Identifier: Apache-2.0

package l7

import (
	"strconv"
	"strings"
)

// SplitHost splits the value of a Host field; the port is 0 if there is none. Brackets around an IPv6 address are removed.
func SplitHost(field string) (host string, port int64) {
	host = field
	if i := strings.LastIndexByte(field, ':'); i >= 0 && !strings.ContainsRune(field[i:], ']') {
		if n, err := strconv.ParseUint(field[i+1:], 10, 16); err == nil {
			host, port = field[:i], int64(n)
		}
	}
	if inner, ok := strings.CutPrefix(host, "["); ok && strings.Contains(inner, ":") {
		host = strings.TrimSuffix(inner, "]")
	}
	return host, port
}
