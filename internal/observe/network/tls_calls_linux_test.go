// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// asking is how often each path is asked for.
const asking = 20

// TestTLSLibraryIsLoadedLater checks that a library is attached to that a process loads (dlopen) after its mappings were read.
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
		}, time.Minute, 50*time.Millisecond)
		require.Equal(t, asking, client.ask("/here"))
		w.settle()
		w.nearly(map[string]uint64{"200": asking}, w.tlsRequests(client, "client"), "client")
	})
}

// TestGnuTLSGoesOn checks that a request is reported that GnuTLS was given in one call and sent in another one, which has no data argument.
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

// TestFunctionsThatCallEachOther checks that bytes that pass through two functions of a library, one of which calls the other, are reported
// once.
func TestFunctionsThatCallEachOther(t *testing.T) {
	guest.SameOnEveryKernel(t)
	library := compile(t, "testdata/nested/nested.c", "-fPIC", "-shared", "-ldl")
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

// compile compiles a library or a program of C.
func compile(t *testing.T, source string, flags ...string) (path string) {
	t.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed: there is nothing to look at")
	}
	path = filepath.Join(t.TempDir(), "compiled")
	out, err := exec.Command(compiler, append([]string{"-O0", "-o", path, source}, flags...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// TestHandshakesWithoutARequest checks that connections that end after their handshake are not taken for opaque ones, if the library works on
// memory: no bytes are sent within its calls.
func TestHandshakesWithoutARequest(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const connections = 10
	runEachWay(t, func(t *testing.T, by *way) {
		cert, key := certificate(t)
		server := speak(t, "python3", "testdata/https.py", "server-memory", cert, key)
		address := net.JoinHostPort("127.0.0.1", server.line())
		config, scope := tlsConfig(t)
		w := watch(t, config, by.change)
		w.attachedTo(scope, openSSLFunctions, server)
		require.Eventually(t, func() bool { return w.tls.attachedAt(uint32(server.PID())) != 0 }, time.Minute, time.Millisecond,
			"connections that begin before it is noted count as begun before the library was attached to")
		for range connections {
			conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // on the loopback device
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
		require.Eventually(t, func() bool { return w.opaque("tls_opaque") >= connections }, time.Minute, 10*time.Millisecond, "those of the client, which is not attached to")
		w.settle()
		if !w.leavesOut() {
			require.Zero(t, w.opaque("tls_opaque_openssl"))
		}
	})
}

// TestFilesSentThroughTLS checks that responses are reported completely whose bodies a library makes the kernel encrypt, so that they are not
// captured.
func TestFilesSentThroughTLS(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const size, times, functions = 100_000, 5, 4
	program := compile(t, "testdata/sendfile/sendfile.c", "-rdynamic")
	for name, plain := range map[string]bool{"session": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			runEachWay(t, func(t *testing.T, by *way) {
				server := speak(t, program, strconv.Itoa(size))
				port := server.line()
				config, scope := tlsConfig(t)
				config.TLS.Plain = plain
				w := watch(t, config, by.change)
				w.attachedTo(scope, functions, server)
				askLikeTLS(t, port, "/file", times, func(body []byte) { require.Len(t, body, size) })
				w.settle()
				w.nearly(map[string]uint64{"200": times}, w.tlsRequests(server, "server"), "server")
				if w.leavesOut() {
					return
				}
				bodies := w.points(server, "http.server.response.body.size", "ebpf.tls=true")
				require.Len(t, bodies, 1)
				require.EqualValues(t, times*size, bodies[0].Histogram.Sum)
			})
		})
	}
}

// askLikeTLS requests a path on one connection, which begins as TLS does and continues in plaintext, and shows each body of a response.
func askLikeTLS(t *testing.T, port, path string, times int, show func(body []byte)) {
	t.Helper()
	client, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	hello := []byte{22, 3, 1, 0, 11, 1, 0, 0, 7, 3, 3, 0, 0, 0, 0, 0} // and no ClientHello within
	_, err = client.Write(hello)
	require.NoError(t, err)
	_, err = io.ReadFull(client, hello)
	require.NoError(t, err)
	answers := bufio.NewReader(client)
	for range times {
		_, err = io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		require.NoError(t, err)
		response, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		show(body)
	}
}

// TestGoroutinesThatPause checks that nothing counts as lost if goroutines are preempted at the beginning of a method, which then starts
// again: with HTTP/2 all that follows on the connection would lack what refers to earlier fields.
func TestGoroutinesThatPause(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const times = 300
	program := testbin.Go(t, "testdata/gotls")
	runEachWay(t, func(t *testing.T, by *way) {
		t.Setenv("COLLECTING", "1")
		server, client := goPair(t, program, "server2", "client2", times)
		config, scope := tlsConfig(t)
		config.BufferBytes = largeBuffer
		w := watch(t, config, by.change)
		w.attachedTo(scope, 2*goFunctions, server, client)
		require.Equal(t, times, client.ask("/here"))
		w.settle()
		want := map[string]uint64{"200": times}
		w.alike(want, w.http2Requests(client, "client"), "client")
		w.alike(want, w.http2Requests(server, "server", "http.route=/here"), "server: refers to an earlier field")
		t.Logf("by the whole host: %d interrupted, %d with unknown fields", w.loss("request_interrupted"), w.loss("request_fields_unknown"))
	})
}

// TestCallOfGoThatBeganBefore checks that what a goroutine was already reading when its program was attached to counts as not captured, and
// that what it reads afterwards is reported.
func TestCallOfGoThatBeganBefore(t *testing.T) {
	guest.SameOnEveryKernel(t)
	program := testbin.Go(t, "testdata/gotls")
	runEachWay(t, func(t *testing.T, by *way) {
		cert, key := certificate(t)
		server := speak(t, program, "server", cert, key)
		address := "127.0.0.1:" + server.line()
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxConnsPerHost: 1}
		defer transport.CloseIdleConnections()
		ask := func() {
			response, err := (&http.Client{Transport: transport}).Get("https://" + address + "/here")
			require.NoError(t, err)
			n, err := io.Copy(io.Discard, response.Body)
			require.NoError(t, err)
			require.EqualValues(t, bodyBytes, n)
			require.NoError(t, response.Body.Close())
		}
		ask()
		allAsleep() // the server reads again
		config, scope := tlsConfig(t)
		w := watch(t, config, by.change)
		w.attachedTo(scope, goFunctions, server)
		ask() // on the same connection, whose next bytes are waited for
		const more = 5
		for range more {
			ask()
		}
		w.settle()
		require.EqualValues(t, 1, w.loss("tls_unknown"))
		reported := w.tlsRequests(server, "server")["200"]
		require.GreaterOrEqual(t, reported, uint64(more), "%v", w.Losses())
	})
}
