// SPDX-License-Identifier: Apache-2.0

package l7

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplitHost(t *testing.T) {
	for field, want := range map[string]struct {
		host string
		port int64
	}{
		"": {"", 0}, "a": {"a", 0}, "a:80": {"a", 80}, "[2001:db8::1]": {"2001:db8::1", 0}, "[2001:db8::1]:443": {"2001:db8::1", 443},
		"a:": {"a:", 0}, "a:x": {"a:x", 0}, "a:99999": {"a:99999", 0}, ":80": {"", 80}, "[a]": {"[a]", 0},
	} {
		host, port := SplitHost(field)
		require.Equal(t, want.host, host, field)
		require.Equal(t, want.port, port, field)
	}
}
