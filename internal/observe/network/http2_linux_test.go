// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c" //lint:ignore SA1019 net/http has no upgrade from HTTP/1.1
	"golang.org/x/net/http2/hpack"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// largeBuffer is the size of a buffer that holds what such tests transfer, also while its reader waits for a CPU.
const largeBuffer = 8 << 20

// cleartext are the protocols of HTTP/2 without TLS and without an upgrade.
func cleartext() *http.Protocols {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	return protocols
}

// http2Requests returns how many HTTP/2 requests of a process were reported, by status.
func (w *watching) http2Requests(of process, side string, wanted ...string) map[string]uint64 {
	counts := map[string]uint64{}
	for _, p := range w.points(of, "http."+side+".request.duration", append(wanted, "network.protocol.version=2")...) {
		status := "none"
		for _, a := range p.Attributes {
			if a.Key == "http.response.status_code" {
				status = strconv.FormatInt(a.Value.Int, 10)
			}
		}
		counts[status] += p.Histogram.Count
	}
	return counts
}

// self is this process.
type self struct{}

func (self) PID() int { return os.Getpid() }

// TestHTTP2 checks that both sides report each HTTP/2 request once, with its status, sizes and duration, with many under way at the same time
// on a connection; also on one that was open before the start, whose fields that were sent before are reported as unknown.
func TestHTTP2(t *testing.T) {
	guest.TakesLong(t)
	const pause = 30 * time.Millisecond
	long := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	mux := answering(pause)
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(long) })
	runEachWay(t, func(t *testing.T, by *way) {
		server := httptest.NewUnstartedServer(mux)
		server.Config.Protocols = cleartext()
		server.Start()
		defer server.Close()
		before := &http.Client{Transport: &http.Transport{Protocols: cleartext()}}
		options(t, before, server.URL)
		config := requestConfig()
		config.BufferBytes = largeBuffer
		w := watch(t, config, by.change)
		for range 3 {
			options(t, before, server.URL) // on the connection from before the start
		}
		client := &http.Client{Transport: &http.Transport{Protocols: cleartext()}}
		all := []asked{
			{"GET", "/ok", nil, 50}, {"HEAD", "/ok", nil, 7}, {"GET", "/slow", nil, 5}, {"GET", "/fail", nil, 9}, {"GET", "/absent", nil, 11},
			{"POST", "/take", long, 6}, {"PUT", "/take", []byte("xy"), 8}, {"DELETE", "/long", nil, 4},
		}
		began := time.Now()
		took := askTogether(t, client, server.URL, all, func(*http.Request) {})
		client.CloseIdleConnections()
		before.CloseIdleConnections()
		w.settle()
		ended := time.Since(began) // of the servers' calls, too
		for _, side := range []struct {
			name           string
			missing, fails string
		}{{"server", "GET 404", "GET 502 502"}, {"client", "GET 404 404", "GET 502 502"}} {
			want := map[string]uint64{
				"GET 200": 50, "HEAD 200": 7, "GET 202": 5, side.fails: 9, side.missing: 11, "POST 201": 6, "PUT 201": 8, "DELETE 200": 4,
			}
			durations := w.requestPoints("http." + side.name + ".request.duration")
			var late uint64
			for key, h := range durations {
				if want[key] == 0 {
					late += h.Count
				}
			}
			if missed := w.missed(); missed > 0 { // segments were not captured, and with each of them the names that later ones refer to
				t.Logf("%s: programs did not run %d times: %v", side.name, missed, counts(durations))
				continue
			}
			require.EqualValues(t, 3, late, "%s: those on the connection from before the start: %v", side.name, counts(durations))
			for key, n := range want {
				require.EqualValues(t, n, durations[key].Count, "%s: %s: %v", side.name, key, counts(durations))
			}
			slow := durations["GET 202"]
			require.GreaterOrEqual(t, slow.Min, pause.Seconds(), side.name)
			require.LessOrEqual(t, slow.Max, ended.Seconds(), side.name)
			if side.name == "client" {
				require.LessOrEqual(t, slow.Sum, took[2].Seconds(), side.name)
			}
			bodies := w.requestPoints("http." + side.name + ".request.body.size")
			require.EqualValues(t, 6*len(long), bodies["POST 201"].Sum, side.name)
			require.EqualValues(t, 2, bodies["PUT 201"].Max, side.name)
			bodies = w.requestPoints("http." + side.name + ".response.body.size")
			require.EqualValues(t, 5*50, bodies["GET 200"].Sum, side.name)
			require.EqualValues(t, 4*len(long), bodies["DELETE 200"].Sum, side.name)
			require.EqualValues(t, 0, bodies["HEAD 200"].Sum, side.name)
		}
		require.Empty(t, w.points(self{}, "http.server.request.duration", "network.protocol.version=1.1"))
	})
}

// startNginx2 starts an nginx that speaks HTTP/2, through TLS if it is given a certificate.
func startNginx2(t *testing.T, cert, key string) *speaker {
	t.Helper()
	port := freeport.For(t)
	listen := fmt.Sprintf("127.0.0.1:%d http2;", port)
	if cert != "" {
		listen = fmt.Sprintf("127.0.0.1:%d ssl http2; ssl_certificate %s; ssl_certificate_key %s;", port, cert, key)
	}
	return runNginx(t, port, listen)
}

// TestHTTP2OfPrograms checks that both sides report each HTTP/2 request once, with the client's own count as the reference, plaintext and
// through TLS.
func TestHTTP2OfPrograms(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const times = 40
	curl := reading(openSSLFunctions+gnuTLSFunctions, "url = %s\n", "curl", "-sk", "--http2", "-K", "-") // of which it uses one
	nginx := party{functions: openSSLFunctions, start: startNginx2}
	node := func(what string) party { return obliging(openSSLFunctions, "node", "testdata/http2.js", what) }
	program := testbin.Go(t, "testdata/gotls")
	golang := func(what string) party { return obliging(goFunctions, program, what) }
	plainNode := party{start: func(t *testing.T, _, _ string) *speaker { return speak(t, "node", "testdata/http2.js", "server") }}
	runEachWay(t, func(t *testing.T, way *way) {
		config, scope := tlsConfig(t)
		config.BufferBytes = largeBuffer
		w := watch(t, config, way.change)
		for _, by := range []struct {
			name           string
			tls            bool
			server, client party
		}{
			{"nginx-curl-tls", true, nginx, curl},
			{"node", false, plainNode, node("client")},
			{"node-tls", true, node("server"), node("client-tls")},
			{"nginx-node", false, nginx, node("client")},
			{"go-tls", true, golang("server2"), golang("client2")},
		} {
			t.Run(by.name, func(t *testing.T) {
				w.begin(t)
				var cert, key string
				if by.tls {
					cert, key = certificate(t)
				}
				server := by.server.start(t, cert, key)
				port := server.line()
				client := by.client.start(t, port, strconv.Itoa(times))
				require.Equal(t, "ready", client.line())
				if by.tls {
					w.attachedTo(scope, by.server.functions+by.client.functions, server, client)
				}
				paths := []string{"/here", "/absent", "/there"}
				answered := by.client.ask(client, port, times, paths)
				w.settle()
				require.GreaterOrEqual(t, answered, 2*times)
				want := map[string]uint64{"200": 2 * times, "404": times}
				scheme := map[bool]string{false: "url.scheme=http", true: "url.scheme=https"}[by.tls]
				w.alike(want, w.http2Requests(client, "client", scheme), "client")
				w.alike(want, w.http2Requests(server, "server", scheme), "server")
				w.detached(scope, server, client)
			})
		}
	})
}

// TestCleartextHTTP2 checks what is reported of a client with prior knowledge that a server speaks HTTP/2, and of one that asks for an
// upgrade: that request has its response on a stream of its own.
func TestCleartextHTTP2(t *testing.T) {
	guest.SameOnEveryKernel(t)
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed: upgrades to HTTP/2 are not tested")
	}
	run := func(t *testing.T, args ...string) {
		t.Helper()
		said, err := exec.Command(curl, append([]string{"-sS", "-o", "/dev/null", "-w", "%{http_code} "}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", said)
		require.Equal(t, "200 ", string(said))
	}
	const times = 10
	runEachWay(t, func(t *testing.T, by *way) {
		nginx := startNginx2(t, "", "")
		//lint:ignore SA1019 net/http has no upgrade from HTTP/1.1
		upgraded := httptest.NewServer(h2c.NewHandler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), &http2.Server{}))
		defer upgraded.Close()
		w := watch(t, requestConfig(), by.change)
		url := "http://127.0.0.1:" + nginx.line() + "/here"
		for range times {
			run(t, "--http2-prior-knowledge", url)
			run(t, "--http2", upgraded.URL)
		}
		w.settle()
		w.alike(map[string]uint64{"200": times}, w.http2Requests(nginx, "server", "http.request.method=GET"), "nginx")
		w.alike(map[string]uint64{"GET 101": times}, counts(w.requestPoints("http.server.request.duration")), "upgraded")
		answers := counts(w.requestPoints("http.server.response.body.size"))
		w.alike(map[string]uint64{"GET 101": times, "* 200": times}, answers, "upgraded: its request is reported as HTTP/1.1")
	})
}

// succeeded matches h2load's own report.
var succeeded = regexp.MustCompile(`requests: (\d+) total, \d+ started, \d+ done, (\d+) succeeded`)

// TestManyStreams checks that of many concurrent requests on few connections, as fast as possible, each is reported once.
func TestManyStreams(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const requests = 20_000
	h2load, err := exec.LookPath("h2load")
	if err != nil {
		t.Skip("h2load is not installed: many streams at full speed are not tested")
	}
	runEachWay(t, func(t *testing.T, way *way) {
		server := startNginx2(t, "", "")
		config := requestConfig()
		config.BufferBytes = largeBuffer
		w := watch(t, config, way.change)
		load := exec.Command(h2load, "-n", strconv.Itoa(requests), "-c", "4", "-m", "32", "http://127.0.0.1:"+server.line()+"/here")
		said, err := load.Output()
		require.NoError(t, err)
		found := succeeded.FindSubmatch(said)
		require.NotNil(t, found, "%s", said)
		require.Equal(t, strconv.Itoa(requests), string(found[2]))
		w.settle()
		reported := w.http2Requests(server, "server")
		if w.missed() == 0 && w.loss("buffer_full") == 0 {
			require.Equal(t, map[string]uint64{"200": requests}, reported, "%v", w.Losses())
		} else {
			require.LessOrEqual(t, reported["200"], uint64(requests))
		}
		t.Logf("%d of %d, %v", reported["200"], requests, w.Losses())
	})
}

// TestFramesAcrossTransfers checks that frames are followed however they are split into transfers: a head byte by byte, content that
// continues, and several in one.
func TestFramesAcrossTransfers(t *testing.T) {
	guest.TakesLong(t)
	const requests = 40
	runEachWay(t, func(t *testing.T, by *way) {
		config := requestConfig()
		config.BufferBytes = largeBuffer
		w := watch(t, config, by.change)
		n, bytesOfBodies := uint64(0), 0
		for _, c := range []struct{ size, body int }{{3, 300}, {5, 300}, {9, 300}, {14, 300}, {700, 3000}, {5000, 3000}, {70_000, 3000}} {
			client, server := connected(t)
			asks, answers := conversation(t, requests, c.body)
			exchangeCut(t, client, server, bytes.Join(asks, nil), len(http2.ClientPreface), c.size)
			exchangeCut(t, server, client, bytes.Join(answers, nil), emptyFrame, c.size)
			require.NoError(t, client.Close())
			require.NoError(t, server.Close())
			w.settle()
			if w.missed() > 0 {
				return // some of the segments were not captured
			}
			n, bytesOfBodies = n+requests, bytesOfBodies+requests*c.body
			for _, side := range []string{"client", "server"} {
				require.Equal(t, map[string]uint64{"GET 200": n}, counts(w.requestPoints("http."+side+".request.duration")), "%s by %d bytes: %v", side, c.size, w.Losses())
				bodies := w.requestPoints("http." + side + ".response.body.size")
				require.EqualValues(t, bytesOfBodies, bodies["GET 200"].Sum, "%s by %d bytes", side, c.size)
			}
		}
	})
}

// conversation returns what both sides send when so many requests are answered with a body of such a size: first the beginning of the
// connection, then each request and its response.
func conversation(t *testing.T, requests, body int) (asks, answers [][]byte) {
	t.Helper()
	var said [2]bytes.Buffer
	framers := [2]*http2.Framer{http2.NewFramer(&said[0], nil), http2.NewFramer(&said[1], nil)}
	take := func() {
		asks, answers = append(asks, bytes.Clone(said[0].Bytes())), append(answers, bytes.Clone(said[1].Bytes()))
		said[0].Reset()
		said[1].Reset()
	}
	said[0].WriteString(http2.ClientPreface)
	for _, f := range framers {
		require.NoError(t, f.WriteSettings())
	}
	take()
	for i := range requests {
		id := uint32(2*i + 1)
		for side, fields := range [2][]hpack.HeaderField{
			{
				{Name: ":method", Value: "GET"}, {Name: ":path", Value: "/of"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "a"},
				{Name: "x-padding", Value: strings.Repeat("p", 10*i)},
			},
			{{Name: ":status", Value: "200"}},
		} {
			var block bytes.Buffer
			encoder := hpack.NewEncoder(&block)
			encoder.SetMaxDynamicTableSize(0)
			for _, field := range fields {
				require.NoError(t, encoder.WriteField(field))
			}
			require.NoError(t, framers[side].WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: side == 0, EndHeaders: true}))
		}
		require.NoError(t, framers[1].WriteData(id, true, make([]byte, body)))
		take()
	}
	return asks, answers
}

// TestFramesAreFoundAgain checks that frames are followed again after bytes that no program could read: a client sends one of its requests
// from a file. The server, which has read it, reports all of them, the client all but that one.
func TestFramesAreFoundAgain(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const requests, hidden = 9, 4
	runEachWay(t, func(t *testing.T, by *way) {
		w := watch(t, requestConfig(), by.change)
		client, server := connected(t)
		asks, answers := conversation(t, requests, 100)
		for i := range asks {
			if i != hidden {
				exchangeBytes(t, client, server, asks[i])
			} else {
				sendAsFile(t, client, asks[i])
				_, err := io.ReadFull(server, make([]byte, len(asks[i])))
				require.NoError(t, err)
			}
			exchangeBytes(t, server, client, answers[i])
		}
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
		w.settle()
		w.alike(map[string]uint64{"GET 200": requests}, counts(w.requestPoints("http.server.request.duration")), "server")
		w.alike(map[string]uint64{"GET 200": requests - 1}, counts(w.requestPoints("http.client.request.duration")), "client")
	})
}

// sendAsFile makes the kernel send bytes from a file.
func sendAsFile(t *testing.T, to net.Conn, said []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "said")
	require.NoError(t, os.WriteFile(path, said, 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	n, err := to.(*net.TCPConn).ReadFrom(file)
	require.NoError(t, err)
	require.EqualValues(t, len(said), n)
}

// emptyFrame is the size of an empty frame.
const emptyFrame = 9

// exchangeCut makes one end write so many bytes at a time, after the first ones, and the other one read them.
func exchangeCut(t *testing.T, from, to net.Conn, said []byte, first, size int) {
	t.Helper()
	exchangeBytes(t, from, to, said[:first])
	said = said[first:]
	done := make(chan error, 1)
	go func() {
		for rest := said; len(rest) > 0; {
			n := min(size, len(rest))
			if _, err := from.Write(rest[:n]); err != nil {
				done <- err
				return
			}
			rest = rest[n:]
		}
		done <- nil
	}()
	buffer := make([]byte, size)
	for left := len(said); left > 0; {
		n, err := to.Read(buffer)
		require.NoError(t, err)
		left -= n
	}
	require.NoError(t, <-done)
}

// callCounts returns how many calls of a process were reported, by method and status.
func (w *watching) callCounts(of process, side string) map[string]uint64 {
	all := map[string]uint64{}
	for _, p := range w.points(of, "rpc."+side+".call.duration", "rpc.system.name=grpc") {
		texts := map[string]string{}
		for _, a := range p.Attributes {
			texts[a.Key] = a.Value.Text
		}
		all[texts["rpc.method"]+" "+texts["rpc.response.status_code"]+" "+texts["error.type"]] += p.Histogram.Count
	}
	return all
}

// TestCalls checks that both sides report each gRPC call once, with its status, unary and streaming ones, with the client's own count as the
// reference.
func TestCalls(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const times, python = 30, "/usr/bin/python3" // that of the system, which its packages are for
	if exec.Command(python, "-c", "import grpc").Run() != nil {
		t.Skip("gRPC for Python is not installed: its calls are not tested")
	}
	runEachWay(t, func(t *testing.T, by *way) {
		server := speak(t, python, "testdata/calls.py", "server")
		port := server.line()
		w := watch(t, requestConfig(), by.change)
		client := speak(t, python, "testdata/calls.py", "client", port, strconv.Itoa(times))
		require.Equal(t, "ready", client.line())
		require.Equal(t, 4*times, client.ask("Get", "Fail", "Break", "Watch"))
		w.settle()
		w.alike(map[string]uint64{
			"shop.Orders/Get OK ": times, "shop.Orders/Watch OK ": times, "shop.Orders/Fail NOT_FOUND ": times, "shop.Orders/Break INTERNAL INTERNAL": times,
		}, w.callCounts(server, "server"), "server")
		w.alike(map[string]uint64{
			"shop.Orders/Get OK ": times, "shop.Orders/Watch OK ": times, "shop.Orders/Fail NOT_FOUND NOT_FOUND": times, "shop.Orders/Break INTERNAL INTERNAL": times,
		}, w.callCounts(client, "client"), "client")
		require.Empty(t, w.points(server, "http.server.request.duration"), "a call is reported once")
	})
}
