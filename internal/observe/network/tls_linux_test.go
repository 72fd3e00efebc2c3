// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/proctest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// tlsScope decides which processes are attached to.
type tlsScope struct {
	mu      sync.Mutex
	inScope map[uint32]bool
}

func (s *tlsScope) set(pid int, in bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inScope[uint32(pid)] = in
}

func (s *tlsScope) decide(pid uint32) (model.ProcessID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stat, err := proctest.ReadStat(proctest.Process(int(pid)))
	return model.ProcessID{PID: pid, StartTicks: stat.StartTicks}, err == nil && s.inScope[pid]
}

// tlsConfig returns a configuration with which the processes of the scope are attached to.
func tlsConfig(t *testing.T) (Config, *tlsScope) {
	t.Helper()
	scope := &tlsScope{inScope: map[uint32]bool{}}
	symbols, err := symbol.New(symbol.Config{RootPath: "/", MemoryBytes: 32 << 20, Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, symbols.Close()) })
	c := requestConfig()
	c.TLS = TLSConfig{
		Libraries: []tls.Library{tls.OpenSSL, tls.BoringSSL, tls.GnuTLS, tls.Go, tls.Node},
		Decide:    scope.decide, Open: symbols.Open, Charge: func(work func()) { work() },
	}
	return c, scope
}

// certificate writes the certificate of a server on the loopback device, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600))
	return cert, key
}

// speaker is a program that speaks HTTPS.
type speaker struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (s *speaker) PID() int { return s.cmd.Process.Pid }

// speak starts a program, which ends with the test.
func speak(t *testing.T, name string, args ...string) *speaker {
	t.Helper()
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("%s is not installed: what it shows of its TLS library is not tested", name)
	}
	require.NoError(t, err)
	s := &speaker{t: t, cmd: exec.Command(path, args...)}
	s.cmd.Stderr = os.Stderr
	s.in, err = s.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.out = bufio.NewReader(out)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(s.end)
	return s
}

// goPair starts testdata/gotls as a server, and as a client that waits for paths and requests each path so many times.
func goPair(t *testing.T, program, serves, asks string, times int) (server, client *speaker) {
	t.Helper()
	cert, key := certificate(t)
	server = speak(t, program, serves, cert, key)
	client = speak(t, program, asks, server.line(), strconv.Itoa(times))
	require.Equal(t, "ready", client.line())
	return server, client
}

func (s *speaker) end() {
	_ = s.in.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// awaitsInput waits until the program reads its input, and so has loaded its libraries.
func (s *speaker) awaitsInput() {
	s.t.Helper()
	reads := func() bool { return proctest.WaitsIn(proctest.Process(s.PID()), 0, unix.SYS_READ) }
	require.Eventually(s.t, reads, time.Minute, time.Millisecond, "it reads its input")
}

// line reads a line of the program's output.
func (s *speaker) line() string {
	s.t.Helper()
	line, err := s.out.ReadString('\n')
	require.NoError(s.t, err)
	return strings.TrimSpace(line)
}

// ask makes a client request paths; it returns how many responses it had.
func (s *speaker) ask(paths ...string) int {
	s.t.Helper()
	_, err := fmt.Fprintln(s.in, strings.Join(paths, " "))
	require.NoError(s.t, err)
	n, err := strconv.Atoi(s.line())
	require.NoError(s.t, err)
	return n
}

// attachedTo waits until as many functions are attached to in all.
func (w *watching) attachedTo(scope *tlsScope, functions int, programs ...process) {
	w.t.Helper()
	for _, p := range programs {
		scope.set(p.PID(), true)
		w.Look(uint32(p.PID()))
	}
	require.Eventually(w.t, func() bool { return w.tls.Functions() == functions }, time.Minute, time.Millisecond, "%d functions", functions)
}

// detached ends programs and waits until no function is attached to any more.
func (w *watching) detached(scope *tlsScope, programs ...*speaker) {
	w.t.Helper()
	for _, p := range programs {
		p.end()
		scope.set(p.PID(), false)
		w.Look(uint32(p.PID()))
	}
	require.Eventually(w.t, func() bool { return w.tls.Functions() == 0 }, time.Minute, time.Millisecond)
}

// leavesOut reports whether the kernel has skipped programs, or may have: kernels without sessions do not count it for programs at functions
// of user space, and emulated ones preempt them often.
func (w *watching) leavesOut() bool { return w.missed() > 0 || guest.Running() && !w.tls.session }

// nearly checks that requests were counted as often as they were made, or in emulated kernels that do not count what they skip a tenth less.
func (w *watching) nearly(want, got map[string]uint64, side string) {
	w.t.Helper()
	if !guest.Running() || w.tls.session {
		w.alike(want, got, side)
		return
	}
	for status, n := range want {
		require.LessOrEqual(w.t, got[status], n, "%s: %s", side, status)
		require.GreaterOrEqual(w.t, got[status], n-n/10-1, "%s: %s: %v", side, status, w.Losses())
	}
}

// tlsRequests returns how many requests of a process through TLS were reported, by status.
func (w *watching) tlsRequests(of process, side string) map[string]uint64 {
	counts := map[string]uint64{}
	for _, p := range w.points(of, "http."+side+".request.duration", "ebpf.tls=true", "url.scheme=https") {
		for _, a := range p.Attributes {
			if a.Key == "http.response.status_code" {
				counts[strconv.FormatInt(a.Value.Int, 10)] += p.Histogram.Count
			}
		}
	}
	return counts
}

// Functions that are attached to in a program.
const (
	openSSLFunctions = 11 // of OpenSSL 3
	gnuTLSFunctions  = 4
	goFunctions      = 4 // of a program that is client and server
)

// party is a program of one side, and the number of its functions that are attached to. It is started with a certificate and its key, or with
// the server's port and how often to request each path.
type party struct {
	functions int
	start     func(t *testing.T, first, second string) *speaker
	ask       func(s *speaker, port string, times int, paths []string) int
}

// obliging returns a party that reads from its input what to request, and prints how many responses it had.
func obliging(functions int, name string, args ...string) party {
	return party{
		functions: functions,
		start: func(t *testing.T, first, second string) *speaker {
			return speak(t, name, append(args, first, second)...)
		},
		ask: func(s *speaker, _ string, _ int, paths []string) int { return s.ask(paths...) },
	}
}

// startNginx starts an nginx that answers as the others do.
func startNginx(t *testing.T, cert, key string) *speaker {
	t.Helper()
	port := freeport.For(t)
	return runNginx(t, port, fmt.Sprintf("127.0.0.1:%d ssl; ssl_certificate %s; ssl_certificate_key %s;", port, cert, key))
}

// runNginx starts an nginx that answers /here and /there on a port; listen is its directive, and what follows that.
func runNginx(t *testing.T, port int, listen string) *speaker {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "here"), make([]byte, bodyBytes), 0o600))
	require.NoError(t, os.Symlink("here", filepath.Join(dir, "there")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), fmt.Appendf(nil, `
daemon off; master_process off; user root; pid %[1]s/pid; error_log stderr crit;
events { worker_connections 64; }
http {
	access_log off; keepalive_requests 100000;
	server { listen %[2]s root %[1]s; }
}`, dir, listen), 0o600))
	s := speak(t, "nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	s.out = bufio.NewReader(strings.NewReader(fmt.Sprintln(port)))
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		return err == nil && conn.Close() == nil
	}, time.Minute, time.Millisecond, "nginx listens")
	return s
}

// bodyBytes is the length of the body of each response.
const bodyBytes = 20000

// reading returns a party that reads what to fetch until its input ends, and writes what it got.
func reading(functions int, line string, name string, args ...string) party {
	return party{
		functions: functions,
		start: func(t *testing.T, _, _ string) *speaker {
			s := speak(t, name, args...)
			s.awaitsInput()
			s.out = bufio.NewReader(io.MultiReader(strings.NewReader("ready\n"), s.out))
			return s
		},
		ask: func(s *speaker, port string, times int, paths []string) int {
			for _, path := range paths {
				for range times {
					_, err := fmt.Fprintf(s.in, line, "https://127.0.0.1:"+port+path)
					require.NoError(s.t, err)
				}
			}
			require.NoError(s.t, s.in.Close())
			got, err := io.ReadAll(s.out)
			require.NoError(s.t, err)
			return len(got) / bodyBytes
		},
	}
}

// TestRequestsThroughTLS checks that both sides report each request once that goes through a TLS library, with the client's own count as the
// reference, and that L4 counts what is on the wire: with a library that uses the socket itself, one that works on memory, one within the
// program, and with goroutines that continue in other threads and whose stacks move.
func TestRequestsThroughTLS(t *testing.T) {
	guest.TakesLong(t)
	const times = 40
	python := func(what string) party { return obliging(openSSLFunctions, "python3", "testdata/https.py", what) }
	node := func(what string) party { return obliging(openSSLFunctions, "node", "testdata/https.js", what) }
	program := testbin.Go(t, "testdata/gotls")
	golang := func(what string) party { return obliging(goFunctions, program, what) }
	nginx := party{functions: openSSLFunctions, start: startNginx}
	curl := reading(openSSLFunctions+gnuTLSFunctions, "url = %s\n", "curl", "-sk", "-K", "-") // of which it uses one
	wget := reading(gnuTLSFunctions, "%s\n", "wget", "-q", "--no-check-certificate", "-i", "-", "-O", "-", "--content-on-error")
	runEachWay(t, func(t *testing.T, way *way) {
		config, scope := tlsConfig(t)
		config.BufferBytes = largeBuffer
		w := watch(t, config, way.change)
		for _, by := range []struct {
			name           string
			server, client party
		}{
			{"socket", python("server"), python("client")},
			{"memory", python("server-memory"), python("client-memory")},
			{"node", node("server"), node("client")},
			{"go", golang("server"), golang("client")},
			{"stack", golang("server"), golang("bare")},
			{"curl", nginx, curl},
			{"wget", python("server"), wget},
		} {
			t.Run(by.name, func(t *testing.T) {
				w.begin(t)
				cert, key := certificate(t)
				server := by.server.start(t, cert, key)
				port := server.line()
				client := by.client.start(t, port, strconv.Itoa(times))
				require.Equal(t, "ready", client.line())
				w.attachedTo(scope, by.server.functions+by.client.functions, server, client)
				paths := []string{"/here", "/absent", "/there"}
				asked := by.client.ask(client, port, times, paths)
				w.settle()
				defer w.detached(scope, server, client)
				want := map[string]uint64{"200": 2 * times, "404": times}
				w.nearly(want, w.tlsRequests(client, "client"), "client")
				w.nearly(want, w.tlsRequests(server, "server"), "server")
				if w.leavesOut() {
					return // some of the calls were not captured
				}
				for _, reason := range []string{"tls_unknown", "buffer_full", "request_unpaired", "request_invalid", "request_cut"} {
					require.Zero(t, w.loss(reason), reason)
				}
				received := w.sum(client, "ebpf.network.io", "network.io.direction=receive")
				sent := w.sum(server, "ebpf.network.io", "network.io.direction=transmit")
				require.InDelta(t, received, sent, 3*64, "how a connection ends need not be read")
				require.Equal(t, sent, w.sum(server, "ebpf.network.io", "network.io.direction=transmit", "ebpf.tls=true", "network.protocol.name=http"))
				require.Equal(t, received, w.sum(client, "ebpf.network.io", "network.io.direction=receive", "ebpf.tls=true", "network.protocol.name=http"))
				if by.name != "curl" { // a file that does not exist has another body there
					require.Equal(t, 3*times, asked)
					require.InEpsilon(t, 3*times*bodyBytes, sent, 0.1, "nothing is counted twice")
				} else {
					require.Equal(t, 2*times, asked)
				}
			})
		}
	})
}

// TestConnectionsInMemoryOneByOne checks that the requests of connections that follow each other are reported if the library works on memory
// and the server ends each, and with it the body: what the client sends at the end of one is received right before the next one's object is
// asked to shake hands, and does not identify its connection.
func TestConnectionsInMemoryOneByOne(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const connections = 20
	program := testbin.Go(t, "testdata/gotls")
	runEachWay(t, func(t *testing.T, way *way) {
		cert, key := certificate(t)
		server := speak(t, "python3", "testdata/https.py", "server-memory", cert, key)
		client := speak(t, program, "bare", server.line(), "1")
		require.Equal(t, "ready", client.line())
		config, scope := tlsConfig(t)
		w := watch(t, config, way.change)
		w.attachedTo(scope, openSSLFunctions, server)
		for range connections {
			require.Equal(t, 1, client.ask("/last"))
		}
		w.settle()
		w.nearly(map[string]uint64{"200": connections}, w.tlsRequests(server, "server"), "server")
	})
}

// probes returns how many descriptors of links and perf events this process has.
func probes(t *testing.T) (n int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range list {
		if target, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil &&
			(strings.Contains(target, "perf_event") || strings.Contains(target, "bpf_link") || strings.Contains(target, "bpf-link")) {
			n++
		}
	}
	return n
}

// TestTLSIsLeft checks that a process that leaves the scope or exits is detached from, with nothing left, and continues as before; with
// sessions and without.
func TestTLSIsLeft(t *testing.T) {
	guest.TakesLong(t)
	const times = 5
	program := testbin.Go(t, "testdata/gotls")
	for _, plain := range []bool{false, true} {
		t.Run(fmt.Sprintf("plain=%t", plain), func(t *testing.T) {
			server, client := goPair(t, program, "server", "client", times)
			config, scope := tlsConfig(t)
			config.TLS.Plain = plain
			w := watch(t, config, nil)
			before, hooks := probes(t), w.Attached()
			w.attachedTo(scope, 2*goFunctions, server, client)
			require.Equal(t, hooks+2*goFunctions, w.Attached())
			require.Greater(t, probes(t), before)
			require.Equal(t, times, client.ask("/here"))
			w.settle()
			w.nearly(map[string]uint64{"200": times}, w.tlsRequests(server, "server"), "server")

			scope.set(server.PID(), false)
			w.Look(uint32(server.PID()))
			require.Eventually(t, func() bool { return w.tls.Functions() == goFunctions }, time.Minute, time.Millisecond)
			require.Equal(t, times, client.ask("/here"))
			w.settle()
			w.nearly(map[string]uint64{"200": times}, w.tlsRequests(server, "server"), "server")
			w.nearly(map[string]uint64{"200": 2 * times}, w.tlsRequests(client, "client"), "client")

			client.end()
			w.Look(uint32(client.PID()))
			require.Eventually(t, func() bool { return probes(t) == before }, time.Minute, 10*time.Millisecond, "descriptors stay")
			require.Eventually(t, func() bool { return w.tls.Functions() == 0 }, time.Minute, time.Millisecond, "detaching takes the kernel some time")
			require.Zero(t, w.loss("tls_not_attached"))
		})
	}
}

// TestOpaqueTLS checks that connections with TLS of which no plaintext is captured are counted, both ends, and none of their requests is
// reported. Others on the host may have such connections, too.
func TestOpaqueTLS(t *testing.T) {
	const connections = 3
	program := testbin.Go(t, "testdata/gotls")
	runEachWay(t, func(t *testing.T, way *way) {
		server, client := goPair(t, program, "server", "client", 2)
		config, scope := tlsConfig(t)
		config.TLS.Libraries = []tls.Library{tls.OpenSSL}
		w := watch(t, config, way.change)
		require.Equal(t, 2*connections, client.ask("/1", "/2", "/3"))
		require.Eventually(t, func() bool { return w.opaque("tls_opaque") >= 2*connections }, time.Minute, 10*time.Millisecond, "%v", w.Losses())
		w.settle()
		require.Empty(t, w.points(server, "http.server.request.duration"))
		require.Empty(t, w.points(client, "http.client.request.duration"))
		sent := w.sum(server, "ebpf.network.io", "network.io.direction=transmit")
		require.Positive(t, sent)
		require.Equal(t, sent, w.sum(server, "ebpf.network.io", "network.io.direction=transmit", "ebpf.tls=true"))
		require.Zero(t, w.sum(server, "ebpf.network.io", "network.io.direction=transmit", "network.protocol.name=http"))

		scope.set(server.PID(), true) // its library is known now, and not one that is configured
		w.Look(uint32(server.PID()))
		require.Eventually(t, func() bool { return w.tls.libraryOf(uint32(server.PID())) == tls.Go }, time.Minute, time.Millisecond)
		require.Zero(t, w.tls.Functions())
		require.Equal(t, 2*connections, client.ask("/1", "/2", "/3"))
		require.Eventually(t, func() bool { return w.opaque("tls_opaque_go") == connections }, time.Minute, 10*time.Millisecond, "%v", w.Losses())
		require.GreaterOrEqual(t, w.opaque("tls_opaque"), uint64(3*connections), "the client's library is not known")
	})
}

// TestReturnsOfGoAreNotChanged checks that uretprobes are never used for Go, also if no return instruction was found: a goroutine that
// returns in another thread would end its process.
func TestReturnsOfGoAreNotChanged(t *testing.T) {
	for call := range tls.Call(tls.Calls) {
		for _, returns := range [][]uint64{nil, {8, 24}} {
			kind, ends := tlsEnds(tls.Function{Call: call, Offset: 4, Returns: returns})
			if slices.Contains([]tls.Call{tls.GoRead, tls.GoWrite, tls.GoHandshake, tls.OldGoRead, tls.OldGoWrite, tls.OldGoHandshake}, call) {
				require.Equal(t, kernel.UprobeEntry, kind)
				require.Equal(t, returns, ends)
				continue
			}
			require.Equal(t, kernel.UprobeReturn, kind)
			require.Equal(t, []uint64{4}, ends)
		}
	}
	require.Equal(t, ebpf.AttachTraceUprobeMulti, tlsTogether[true].as, "no session at methods of Go")
}

// TestProgramsOfGoSurvive checks that a Go program continues as before while it is attached to and detached from again and again: goroutines
// are within the functions meanwhile, continue in other threads, and their stacks move.
func TestProgramsOfGoSurvive(t *testing.T) {
	guest.TakesLong(t)
	const (
		times  = 20
		rounds = 8
	)
	program := testbin.Go(t, "testdata/gotls")
	server, client := goPair(t, program, "server", "bare", times)
	config, scope := tlsConfig(t)
	w := watch(t, config, nil)
	stop, left := make(chan struct{}), make(chan struct{})
	go func() { // one of the two stays attached to meanwhile, in turns
		defer close(left)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond): // attaching takes as long
			}
			scope.set(server.PID(), i%4 != 0)
			scope.set(client.PID(), i%4 != 2)
			w.Look(uint32(server.PID()))
			w.Look(uint32(client.PID()))
		}
	}()
	defer func() {
		close(stop)
		<-left
	}()
	for range rounds {
		require.Equal(t, 4*times, client.ask("/1", "/2", "/3", "/4"))
	}
}
