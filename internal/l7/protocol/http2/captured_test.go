// SPDX-License-Identifier: Apache-2.0

package http2_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c" //lint:ignore SA1019 net/http has no upgrade from HTTP/1.1

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/recording"
)

// record makes testdata/*.txt anew from the programs that are installed.
var record = flag.Bool("record", false, "record what real programs say into testdata/*.txt")

// A recording has a line for each piece as the server read (<) or wrote (>) it, a line for each connection that began (+) or ended (-), all
// with the connection's number, and, counted by the client, a line for each exchange (=): method, path, status and bytes of the body.
const recordings = "testdata/*.txt"

// TestWhatRealProgramsSay compares with what their clients counted, seen from both ends.
func TestWhatRealProgramsSay(t *testing.T) {
	if *record {
		recordAll(t)
	}
	files, err := filepath.Glob(recordings)
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		for _, server := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, server %v", filepath.Base(file), server), func(t *testing.T) {
				want, got := replay(t, file, server)
				require.NotEmpty(t, want)
				require.ElementsMatch(t, want, got)
			})
		}
	}
}

// replay feeds a recording and returns what the client counted and what was reported.
func replay(t *testing.T, file string, server bool) (want, got []string) {
	steps, want, err := recording.File(file)
	require.NoError(t, err)
	directions := map[string]l7.Direction{recording.Read: l7.Read, recording.Write: l7.Write}
	if !server {
		directions = map[string]l7.Direction{recording.Read: l7.Write, recording.Write: l7.Read}
	}
	conns := map[string]*listener{}
	for _, step := range steps {
		switch step.Mark {
		case recording.Begin:
			conns[step.Connection] = listen()
		case recording.End:
			conns[step.Connection].Close()
		default:
			conns[step.Connection].feed(directions[step.Mark], []byte(step.Text))
		}
		for _, x := range conns[step.Connection].reported {
			require.Equal(t, l7.Complete, x.Outcome)
			got = append(got, strings.TrimLeft(fmt.Sprintf("%s %s %d %d", x.Method, x.Target, x.Status, x.Response.Body), " "))
		}
		conns[step.Connection].reported = nil
	}
	return want, got
}

// recordAll makes the recordings.
func recordAll(t *testing.T) {
	curl := programVersion(t, "curl", "--version")
	recordServer(t, "curl-node-go", curl+", "+runtime.Version(), startGo(t), "--http2-prior-knowledge", "/echo")
	recordServer(t, "curl-go-upgrade", curl+", "+runtime.Version(), startGo(t), "--http2", "/echo")
	recordServer(t, "curl-node-node", curl+", node "+programVersion(t, "node", "--version"), startNode(t), "--http2-prior-knowledge", "/echo")
	recordServer(t, "curl-node-nginx", curl+", "+programVersion(t, "nginx", "-v"), startNginx(t), "--http2-prior-knowledge", "/file.txt")
}

func programVersion(t *testing.T, name string, args ...string) string {
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// recordServer lets curl make requests, each on its own connection, then Node several at once.
func recordServer(t *testing.T, name, version, target, how, post string) {
	rec := &recorder{target: target}
	rec.printf("# %s", version)
	url := "http://" + rec.listen(t)
	const count = "%{method} %{url} %{http_code} %{size_download}\n"
	each := []string{"-sS", how, "-w", count, "-o", os.DevNull}
	runs := [][]string{{url + "/file.txt"}, {"-I", url + "/file.txt"}, {url + "/missing"}, {"--data", "key=value", url + post}, {url + "/parts"}, {url + "/file.txt?again=1"}}
	for _, args := range runs {
		for _, line := range printed(t, "curl", slices.Concat(each, args)...) {
			line = strings.Replace(line, url, "", 1)
			if how == "--http2" {
				// The request is one of HTTP/1.1 that was answered by a change of protocol; its response is reported by itself.
				words := strings.Fields(line)
				rec.printf("= %s %s 101 0", words[0], words[1])
				line = words[2] + " " + words[3]
			}
			rec.printf("= %s", line)
		}
		rec.open.Wait()
	}
	if how != "--http2" {
		for _, line := range printed(t, "node", "-e", nodeClient, url) {
			rec.printf("= %s", line)
		}
		rec.open.Wait()
	}
	require.NoError(t, os.WriteFile(filepath.Join("testdata", name+".txt"), rec.log.Bytes(), 0o644))
}

// nodeClient makes 12 requests at the same time on one connection.
const nodeClient = `
	const client = require("http2").connect(process.argv[1]);
	let open = 12;
	for (let i = 0; i < 12; i++) {
		const path = (i % 4 ? "/file.txt?n=" : "/missing/") + i, req = client.request({":path": path, traceparent: "tp"});
		let status = 0, bytes = 0;
		req.on("response", (headers) => { status = headers[":status"]; });
		req.on("data", (part) => { bytes += part.length; });
		req.on("end", () => { console.log("GET", path, status, bytes); if (--open === 0) { client.close(); } });
		req.end();
	}`

// printed are the lines that a program prints.
func printed(t *testing.T, name string, args ...string) []string {
	out, err := exec.Command(name, args...).Output()
	require.NoError(t, err)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
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

func (r *recorder) listen(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
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

const fileText = "what a file says\n"

func startGo(t *testing.T) string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /file.txt", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "file.txt", time.Unix(0, 0), strings.NewReader(fileText))
	})
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	mux.HandleFunc("GET /parts", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		for i := range 3 {
			fmt.Fprintf(w, "part %d\n", i)
			w.(http.Flusher).Flush()
		}
		w.Header().Set("X-Sum", "3")
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	//lint:ignore SA1019 net/http has no upgrade from HTTP/1.1
	server := &http.Server{Handler: h2c.NewHandler(mux, &xhttp2.Server{})}
	go func() { _ = server.Serve(l) }() // until it is closed
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return l.Addr().String()
}

func startNode(t *testing.T) string {
	port := strconv.Itoa(freeport.For(t))
	return startProgram(t, port, "node", "-e", `
		const [port, text] = process.argv.slice(1);
		require("http2").createServer((req, res) => {
			if (req.url.startsWith("/file.txt")) { res.end(text); }
			else if (req.url === "/echo") { req.pipe(res); }
			else if (req.url === "/parts") { res.write("part 0\n"); setTimeout(() => res.end("part 1\n"), 20); }
			else { res.statusCode = 404; res.end(); }
		}).listen(+port, "127.0.0.1");`, port, fileText)
}

func startNginx(t *testing.T) string {
	dir, port := t.TempDir(), strconv.Itoa(freeport.For(t))
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file.txt"), []byte(fileText), 0o644))
	conf := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(conf, []byte(fmt.Sprintf(`
		daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log;
		events {}
		http { access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi;
			scgi_temp_path %[1]s/scgi;
			server { listen 127.0.0.1:%[2]s http2; root %[1]s; location /parts { return 301 /file.txt; } } }`, dir, port)), 0o644))
	return startProgram(t, port, "nginx", "-c", conf, "-e", filepath.Join(dir, "error.log"))
}

// startProgram starts a server and waits until it listens on the port.
func startProgram(t *testing.T, port, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	})
	addr := net.JoinHostPort("127.0.0.1", port)
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}, time.Minute, 20*time.Millisecond)
	return addr
}
