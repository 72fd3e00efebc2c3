// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// TestJavaIsUnavailable checks that Java's own TLS is reported as unavailable once, when the first process with it is found, and not if it is
// not configured.
func TestJavaIsUnavailable(t *testing.T) {
	for _, wanted := range [][]tls.Library{tls.Libraries, {tls.OpenSSL}} {
		var said []tls.Library
		a := &tlsAttacher{
			libraries: wanted, known: map[uint32]known{}, reported: map[tls.Library]bool{},
			unavailable: func(library tls.Library, why error) {
				require.ErrorContains(t, why, "unavailable")
				require.ErrorContains(t, why, "tls_opaque_java")
				said = append(said, library)
			},
		}
		for pid := range uint32(3) {
			a.found(pid, []tls.Found{{}, {Library: tls.OpenSSL}})
			require.Empty(t, said)
		}
		for pid := range uint32(3) {
			a.found(10+pid, []tls.Found{{Library: tls.Java}, {}})
			require.Equal(t, tls.Java, a.libraryOf(10+pid))
		}
		if len(wanted) > 1 {
			require.Equal(t, []tls.Library{tls.Java}, said)
		} else {
			require.Empty(t, said)
		}
	}
}

// TestLibrariesAreKnownForLong checks the library that the connections of a process are counted with: its only one, none if it has several;
// after an exec the new program's; and for a while after it has exited, since the end of its connections is read later.
func TestLibrariesAreKnownForLong(t *testing.T) {
	const pid, other = 7, 8
	a := &tlsAttacher{libraries: tls.Libraries, known: map[uint32]known{}, reported: map[tls.Library]bool{}}
	functions := []tls.Function{{}}
	a.found(pid, []tls.Found{{}, {Library: tls.Java}, {Library: tls.GnuTLS, Functions: functions}, {Library: tls.OpenSSL, Functions: functions}})
	require.Empty(t, a.libraryOf(pid), "any of the three may carry a connection")
	require.NotZero(t, a.attachedAt(pid))
	a.found(pid, []tls.Found{{}, {Library: tls.GnuTLS, Functions: functions}})
	require.Equal(t, tls.GnuTLS, a.libraryOf(pid))
	first := a.attachedAt(pid)
	a.found(pid, []tls.Found{{Library: tls.GnuTLS, Functions: functions}, {Library: tls.OpenSSL, Functions: functions}})
	require.Equal(t, first, a.attachedAt(pid), "connections of the first library did not begin late")
	a.found(pid, []tls.Found{{Library: tls.Java}})
	require.Equal(t, tls.Java, a.libraryOf(pid), "it has loaded another program")
	a.left(model.ProcessID{PID: pid})
	require.Equal(t, tls.Java, a.libraryOf(pid))
	k := a.known[pid]
	require.True(t, k.until.After(time.Now()))
	k.until = time.Now().Add(-time.Minute)
	a.known[pid] = k
	a.left(model.ProcessID{PID: other})
	require.Empty(t, a.known, "long after it has left")
	a.found(pid, []tls.Found{{Library: tls.Go}})
	a.found(pid, []tls.Found{{}})
	require.Empty(t, a.known, "a program without any")
}
