// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// asking is how often each path is asked for.
const asking = 20

// TestTLSLibraryIsLoadedLater holds that a library is attached to which a process loads (dlopen) after it was looked into.
func TestTLSLibraryIsLoadedLater(t *testing.T) {
	guest.SameOnEveryKernel(t)
	runEachWay(t, func(t *testing.T, by *way) {
		cert, key := certificate(t)
		server := speak(t, "python3", "testdata/https.py", "server", cert, key)
		client := speak(t, "python3", "testdata/late.py", server.line(), fmt.Sprint(asking))
		require.Equal(t, "ready", client.line())
		config, scope := tlsConfig(t)
		w := watch(t, config, by.change)
		w.attachedTo(scope, openSSLFunctions, server, client)
		_, err := fmt.Fprintln(client.in)
		require.NoError(t, err)
		require.Equal(t, "loaded", client.line())
		require.Eventually(t, func() bool {
			w.LookAll() // as with each scan
			return w.tls.Functions() == 2*openSSLFunctions
		}, 30*time.Second, 50*time.Millisecond)
		require.Equal(t, asking, client.ask("/here"))
		w.settle()
		w.nearly(map[string]uint64{"200": asking}, w.tlsRequests(client, "client"), "client")
	})
}

// TestGnuTLSGoesOn holds that a request is told that GnuTLS was given in one call and sent in another, which is given nothing.
func TestGnuTLSGoesOn(t *testing.T) {
	guest.SameOnEveryKernel(t)
	runEachWay(t, func(t *testing.T, by *way) {
		cert, key := certificate(t)
		server := speak(t, "python3", "testdata/https.py", "server", cert, key)
		client := speak(t, "python3", "testdata/gnutls.py", server.line(), fmt.Sprint(asking))
		if client.line() == "none" {
			t.Skip("GnuTLS is not installed")
		}
		config, scope := tlsConfig(t)
		w := watch(t, config, by.change)
		w.attachedTo(scope, gnuTLSFunctions, client)
		require.Equal(t, asking, client.ask("/here"))
		w.settle()
		w.nearly(map[string]uint64{"200": asking}, w.tlsRequests(client, "client"), "client")
		if !w.leavesOut() {
			require.Zero(t, w.loss("request_unpaired"))
		}
	})
}

// TestFunctionsThatCallEachOther holds that what passes through two functions of a library, of which one calls the other, is told once.
func TestFunctionsThatCallEachOther(t *testing.T) {
	guest.SameOnEveryKernel(t)
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: there is no such library")
	}
	library := filepath.Join(t.TempDir(), "nested.so")
	out, err := exec.Command(compiler, "-O0", "-fPIC", "-shared", "-o", library, "testdata/nested/nested.c", "-ldl").CombinedOutput()
	require.NoError(t, err, "%s", out)
	const nested = 4
	runEachWay(t, func(t *testing.T, by *way) {
		cert, key := certificate(t)
		server := speak(t, "python3", "testdata/https.py", "server", cert, key)
		client := speak(t, "env", "LD_PRELOAD="+library, "python3", "testdata/https.py", "client", server.line(), fmt.Sprint(asking))
		require.Equal(t, "ready", client.line())
		config, scope := tlsConfig(t)
		w := watch(t, config, by.change)
		w.attachedTo(scope, openSSLFunctions+nested, client)
		require.Equal(t, 2*asking, client.ask("/here", "/absent"))
		w.settle()
		w.nearly(map[string]uint64{"200": asking, "404": asking}, w.tlsRequests(client, "client"), "client")
		if !w.leavesOut() {
			require.Zero(t, w.loss("request_unpaired"))
		}
	})
}
