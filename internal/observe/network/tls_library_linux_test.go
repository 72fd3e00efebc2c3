// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// TestOnlyLibrary checks that connections of a process are named by its library if it has only one.
func TestOnlyLibrary(t *testing.T) {
	attached := []tls.Function{{Name: "SSL_read"}}
	for name, c := range map[string]struct {
		all  []tls.Found
		want tls.Library
	}{
		"none":                 {nil, ""},
		"no library":           {[]tls.Found{{}, {}}, ""},
		"one":                  {[]tls.Found{{}, {Library: tls.OpenSSL, Functions: attached}, {}}, tls.OpenSSL},
		"the same twice":       {[]tls.Found{{Library: tls.OpenSSL}, {Library: tls.OpenSSL, Functions: attached}}, tls.OpenSSL},
		"two":                  {[]tls.Found{{Library: tls.GnuTLS, Functions: attached}, {Library: tls.OpenSSL, Functions: attached}}, ""},
		"rustls alone":         {[]tls.Found{{Rustls: true}}, ""},
		"rustls and a library": {[]tls.Found{{Rustls: true}, {Library: tls.OpenSSL, Functions: attached}}, ""},
		"rustls in a library":  {[]tls.Found{{Library: tls.OpenSSL, Functions: attached, Rustls: true}}, ""},
	} {
		require.Equal(t, c.want, onlyLibrary(c.all), name)
	}
}
