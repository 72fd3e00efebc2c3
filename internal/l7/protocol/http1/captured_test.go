// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/recording"
)

// record makes testdata/*.txt anew from the programs that are installed.
var record = flag.Bool("record", false, "record what real servers say into testdata/*.txt")

// A recording has a line for each piece as the server read (<) or wrote (>) it, a line for each connection that began (+) or ended (-),
// all with the connection's number, and, counted by the client, a line for each exchange (=): method, target, status and bytes of the
// body.
const recordings = "testdata/*.txt"

// TestWhatRealServersSay compares with what their client counted.
func TestWhatRealServersSay(t *testing.T) {
	if *record {
		recordAll(t)
	}
	files, err := filepath.Glob(recordings)
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, got := replay(t, file)
			require.NotEmpty(t, want)
			require.Equal(t, want, got)
		})
	}
}

// replay feeds a recording and returns what the client counted and what was reported.
func replay(t *testing.T, file string) (want, got []string) {
	steps, want, err := recording.File(file)
	require.NoError(t, err)
	conns := map[string]*listener{}
	now := int64(0)
	for _, step := range steps {
		now += 10
		switch step.Mark {
		case recording.Begin:
			conns[step.Connection] = listen()
		case recording.End:
			conns[step.Connection].Close()
		default:
			conns[step.Connection].Feed(whole(map[string]l7.Direction{recording.Read: l7.Read, recording.Write: l7.Write}[step.Mark], now, step.Text))
		}
		for _, x := range conns[step.Connection].reported {
			require.Equal(t, l7.Complete, x.Outcome)
			got = append(got, fmt.Sprintf("%s %s %d %d", x.Method, x.Target, x.Status, x.Response.Body))
		}
		conns[step.Connection].reported = nil
	}
	return want, got
}

// recordAll makes the recordings.
func recordAll(t *testing.T) {
	recordServer(t, "go-net-http", runtime.Version(), startGo)
	recordServer(t, "node-http", programVersion(t, "node", "--version"), startNode)
	recordServer(t, "python-http.server", programVersion(t, "python3", "--version"), startPython)
}

func programVersion(t *testing.T, name string, args ...string) string {
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

func recordServer(t *testing.T, name, version string, start func(*testing.T) string) {
	rec := &recorder{target: start(t)}
	rec.printf("# %s, %s", name, version)
	addr := rec.listen(t)
	for _, closes := range []bool{false, true} {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: closes, DisableCompression: true}}
		for _, r := range []struct{ method, path, body string }{
			{"GET", "/file.txt", ""}, {"HEAD", "/file.txt", ""}, {"GET", "/missing", ""}, {"POST", "/file.txt", "key=value"}, {"GET", "/", ""},
			{"GET", "/file.txt?again=1", ""},
		} {
			rec.request(t, client, r.method, "http://"+addr+r.path, r.body)
		}
		client.CloseIdleConnections()
		rec.wait()
	}
	require.NoError(t, os.WriteFile(filepath.Join("testdata", name+".txt"), rec.log.Bytes(), 0o644))
}

// recorder stands between a client and a server and notes what passes.
type recorder struct {
	target string
	mu     sync.Mutex
	log    bytes.Buffer
	open   sync.WaitGroup
	conns  int
}

func (r *recorder) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.log, format+"\n", args...)
}

func (r *recorder) wait() { r.open.Wait() }

func (r *recorder) listen(t *testing.T) string {
	l, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.open.Add(1)
			r.conns++
			go r.relay(c, r.conns)
		}
	}()
	return l.Addr().String()
}

func (r *recorder) relay(client net.Conn, number int) {
	defer r.open.Done()
	server, err := net.Dial("tcp", r.target)
	if err != nil {
		r.printf("# %v", err)
		return
	}
	r.printf("+ %d", number)
	var both sync.WaitGroup
	both.Add(2)
	go r.pass(&both, fmt.Sprintf("< %d", number), server, client)
	go r.pass(&both, fmt.Sprintf("> %d", number), client, server)
	both.Wait()
	r.printf("- %d", number)
}

func (r *recorder) pass(done *sync.WaitGroup, mark string, to, from net.Conn) {
	defer done.Done()
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			r.printf("%s %s", mark, strconv.QuoteToASCII(string(buffer[:n])))
			_, _ = to.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// request makes a request and notes what the client got.
func (r *recorder) request(t *testing.T, client *http.Client, method, url, body string) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, url, reader)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	r.printf("= %s %s %d %d", method, req.URL.RequestURI(), resp.StatusCode, n)
}

const fileText = "what a file says\n"

func startGo(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /file.txt", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "file.txt", time.Unix(0, 0), strings.NewReader(fileText))
	})
	mux.HandleFunc("POST /file.txt", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		for i := range 3 {
			fmt.Fprintf(w, "part %d\n", i)
			w.(http.Flusher).Flush()
		}
		w.Header().Set("X-Sum", "3")
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func startNode(t *testing.T) string {
	return startProgram(t, strconv.Itoa(freeport.For(t)), "node", "-e", `
		const [port, text] = process.argv.slice(1);
		require("http").createServer((req, res) => {
			if (req.url.startsWith("/file.txt")) { req.method === "POST" ? req.pipe(res) : res.end(text); }
			else if (req.url === "/") { res.write("part 0\n"); setTimeout(() => res.end("part 1\n"), 20); }
			else { res.statusCode = 404; res.end(); }
		}).listen(+port, "localhost");`, "PORT", fileText)
}

func startPython(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file.txt"), []byte(fileText), 0o644))
	return startProgram(t, strconv.Itoa(freeport.For(t)), "python3", "-m", "http.server", "--protocol", "HTTP/1.1", "--bind", "localhost", "--directory", dir, "PORT")
}

// startProgram starts a server, PORT among its arguments being the port, and waits until it listens.
func startProgram(t *testing.T, port, name string, args ...string) string {
	for i := range args {
		if args[i] == "PORT" {
			args[i] = port
		}
	}
	cmd := exec.Command(name, args...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	})
	addr := net.JoinHostPort("localhost", port)
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}, time.Minute, 20*time.Millisecond)
	return addr
}
