// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package network

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// TestArgumentsOnTheStack checks that requests are reported of a program with methods as Go 1.16 has them, with the client's count as the
// reference. TestLongFormOldGoReleases checks programs of Go 1.16 itself.
func TestArgumentsOnTheStack(t *testing.T) {
	guest.TakesLong(t)
	const times, functions = 50, 3
	program := testbin.C(t, "testdata/oldgo.c")
	runEachWay(t, func(t *testing.T, by *way) {
		server := speak(t, program)
		port := server.line()
		config, scope := tlsConfig(t)
		w := watch(t, config, by.change)
		w.attachedTo(scope, functions, server)
		askLikeTLS(t, port, "/old", times, func(body []byte) { require.Equal(t, "hello", string(body)) })
		w.settle()
		w.nearly(map[string]uint64{"200": times}, w.tlsRequests(server, "server"), "server")
		if w.leavesOut() {
			return
		}
		bodies := w.points(server, "http.server.response.body.size", "ebpf.tls=true")
		require.Len(t, bodies, 1)
		require.EqualValues(t, times*len("hello"), bodies[0].Histogram.Sum)
		require.Zero(t, w.loss("tls_unknown"))
	})
}

// TestLongFormOldGoReleases checks that both sides report each request of programs that Go 1.16 has built, with the client's own count as the
// reference: as they come, position independent (PIE) and stripped, and linked with C, where goroutines are elsewhere; by HTTP/1.1 and
// HTTP/2, and by goroutines that are preempted all the time and read into their stacks, which move; with a program for all functions, and for
// stripped ones as older kernels have it.
func TestLongFormOldGoReleases(t *testing.T) {
	guest.SameOnEveryKernel(t)
	release, err := filepath.Abs("../../../_build/servers/go1.16")
	require.NoError(t, err)
	if _, err := os.Stat(release); err != nil || os.Getenv("EBPFRECEIVER_LONG") == "" {
		t.Skip("Go 1.16 is only for the long form, or `make fetch-servers` has not fetched it")
	}
	const times, clients = 20, 32
	paths := strings.Fields(strings.Repeat("/here ", clients))
	for _, built := range []struct {
		name    string
		flags   []string
		withC   string
		session bool
	}{
		{"plain", nil, "0", true},
		{"stripped", []string{"-ldflags=-s -w"}, "0", false},
		{"PIE, stripped", []string{"-buildmode=pie", "-ldflags=-s -w"}, "0", true},
		{"with C", []string{"-ldflags=-linkmode=external -extldflags=-static"}, "1", true},
	} {
		t.Run(built.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "gotls")
			build := exec.Command(filepath.Join(release, "bin/go"), append(append([]string{"build", "-o", program}, built.flags...), "main.go")...)
			build.Dir = "testdata/gotls"
			build.Env = append(os.Environ(), "GOROOT="+release, "GOENV=off", "GOFLAGS=", "GOTOOLCHAIN=local", "GO111MODULE=off", "CGO_ENABLED="+built.withC)
			said, err := build.CombinedOutput()
			require.NoError(t, err, "%s", said)
			for _, by := range []struct{ serves, asks, collecting string }{
				{"server", "client", ""}, {"server2", "client2", ""}, {"server", "bare", "1"}, {"server2", "client2", "1"},
			} {
				t.Run(by.asks+by.collecting, func(t *testing.T) {
					t.Setenv("COLLECTING", by.collecting)
					server, client := goPair(t, program, by.serves, by.asks, times)
					config, scope := tlsConfig(t)
					config.BufferBytes, config.TLS.Plain = largeBuffer, !built.session
					w := watch(t, config, nil)
					w.attachedTo(scope, 2*goFunctions, server, client)
					require.Equal(t, clients*times, client.ask(paths...))
					w.settle()
					want := map[string]uint64{"200": clients * times}
					w.alike(want, w.tlsRequests(client, "client"), "client")
					w.alike(want, w.tlsRequests(server, "server"), "server")
				})
			}
		})
	}
}
