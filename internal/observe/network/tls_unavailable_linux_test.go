// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// TestJavaIsUnavailable holds that it is said once that nothing is seen of Java's own TLS, when the first process is found that has it, and
// not where nobody has asked for it.
func TestJavaIsUnavailable(t *testing.T) {
	for _, wanted := range [][]tls.Library{tls.Libraries, {tls.OpenSSL}} {
		var said []tls.Library
		a := &tlsAttacher{
			libraries: wanted, known: map[uint32]tls.Library{}, told: map[tls.Library]bool{},
			unavailable: func(library tls.Library, why error) {
				require.ErrorContains(t, why, "unavailable")
				require.ErrorContains(t, why, "tls_opaque_java")
				said = append(said, library)
			},
		}
		for pid := range uint32(3) {
			require.NoError(t, a.attach(nil, tls.Found{Library: tls.OpenSSL}, "/lib/libssl.so.3", pid))
			require.Empty(t, said)
		}
		for pid := range uint32(3) {
			require.NoError(t, a.attach(nil, tls.Found{Library: tls.Java}, "/usr/lib/jvm/libjvm.so", 10+pid))
			require.Equal(t, tls.Java, a.libraryOf(10+pid))
		}
		if len(wanted) > 1 {
			require.Equal(t, []tls.Library{tls.Java}, said)
		} else {
			require.Empty(t, said)
		}
	}
}
