// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/plog"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

// everyRequest logs each request of some processes, and serves the receiver's own metrics.
const everyRequest = `
receivers:
  ebpf:
    targets: {include: [%s]}
    observe: {network: {report_interval: 1s, capture: headers, requests: {log: all}}}
    limits: {cpu_percent: 100}
exporters: {file: {path: %q, flush_interval: 100ms}}
service:
  telemetry: {metrics: {readers: [{pull: {exporter: {prometheus: {host: %s, port: %s}}}}]}}
  pipelines: {logs: {receivers: [ebpf], exporters: [file]}}
`

// slowPause is how long servers wait before they answer /slow.
const slowPause = 100 * time.Millisecond

// inLongForm reports whether tests are to take their time; make test-long asks for it.
func inLongForm() bool { return os.Getenv("EBPFRECEIVER_LONG") != "" }

// times is how often each listener is asked for a path.
func times(path string) int {
	many := map[string]int{"/here": 12, "/absent": 5, "/slow": 2}[path]
	if inLongForm() {
		many *= 10
	}
	return many
}

// listener is a port of a server, and the versions of HTTP that it speaks.
type listener struct {
	pid      int
	port     int
	tls      bool
	versions []string
	opaque   string // the library of which nothing can be seen
	delayed  bool   // leaves it to the kernel to wait with a response's end for the client's acknowledgement (Nagle), 40 ms
	// early is by how much a shorter duration is accepted where the TLS library works on memory: responses end there when they are encrypted,
	// and with netty some 200 µs later when they are written.
	early time.Duration
	logs  func(t *testing.T) string
	times func(t *testing.T) string // the log of a server that says how long each request took it
}

func (l listener) url(path string) string {
	return fmt.Sprintf("%s://127.0.0.1:%d%s", l.scheme(), l.port, path)
}

func (l listener) scheme() string {
	if l.tls {
		return "https"
	}
	return "http"
}

// site is what servers are started with.
type site struct {
	dir, cert, key, pem string
	backend             int // the port of a server to which proxies send /slow
	targets             []string
}

// realServer is a server of another project.
type realServer struct {
	name, needs, install string
	long                 bool // it takes some seconds to compile, or is not to be had from Debian
	start                func(t *testing.T, s *site) []listener
	listeners            []listener
	asked                map[listenerVersion][]answered
}

type listenerVersion struct {
	port    int
	version string
}

// answered is what curl says of one request: when it was ready to send it until it had the answer.
type answered struct {
	path   string
	status string
	took   time.Duration
}

// realServers are the servers that TestRealServers observes.
func realServers() []*realServer {
	return []*realServer{
		{name: "nginx", needs: "nginx", install: "apt-get install nginx-light", start: serveNginx},
		{name: "Apache", needs: "apache2", install: "apt-get install apache2-bin", start: serveApache},
		{name: "HAProxy", needs: "haproxy", install: "apt-get install haproxy", start: serveHAProxy},
		{name: "Node.js", needs: "node", install: "apt-get install nodejs", start: serveNode},
		{name: "http.server", needs: systemPython, install: "apt-get install python3", start: servePython},
		{name: "uvicorn", needs: "/usr/lib/python3/dist-packages/uvicorn", install: "apt-get install python3-uvicorn", start: serveUvicorn},
		{name: "hypercorn", needs: "/usr/lib/python3/dist-packages/hypercorn", install: "apt-get install python3-hypercorn", start: serveHypercorn},
		{name: "HttpServer", needs: "java", install: "apt-get install default-jdk-headless", start: serveJava},
		{name: "netty-tcnative", needs: "/usr/share/java/netty-tcnative.jar", install: "apt-get install default-jdk-headless libnetty-java libnetty-tcnative-java", long: true, start: serveNetty},
		{name: "netty-tcnative-boringssl-static", needs: nettyBoring, install: fetch, long: true, start: serveNettyBoring},
		{name: "OpenSSL 3", needs: systemPython, install: "apt-get install python3", start: serveLibssl("/usr/lib/*-linux-gnu", "libcrypto.so.3", "libssl.so.3")},
		{name: "OpenSSL 3, static and stripped", needs: "/usr/include/openssl/ssl.h", install: "apt-get install gcc libssl-dev", start: serveStatic},
		{name: "Envoy", needs: envoy, install: fetch, long: true, start: serveEnvoy},
		{name: "OpenSSL 1.0.2", needs: openSSL102, install: fetch, long: true, start: serveLibssl(openSSL102, "libcrypto-*", "libssl-*")},
		{name: "OpenSSL 1.1.1", needs: openSSL111, install: fetch, long: true, start: serveLibssl(openSSL111, "libcrypto-*", "libssl-*")},
		{name: "net/http", start: serveGo},
	}
}

// TestRealServers checks that each request to servers of other projects is logged exactly once, with its status and duration, with plaintext
// and through TLS, as curl has counted and timed them, and as servers with an access log have logged them; that requests of proxies to their
// upstream are logged as well, and gRPC's calls of both sides and lookups by the process that makes them; and that Java's TLS is reported as
// not seen.
func TestRealServers(t *testing.T) {
	needRoot(t)
	binary, curl := distribution(t), installed(t, "curl")
	s := newSite(t)
	serving := realServers()
	for _, of := range serving {
		if of.absent() || of.leftOut() {
			continue
		}
		of.listeners = of.start(t, s)
	}
	for _, of := range serving {
		for _, l := range of.listeners {
			awaitPort(t, of.name, l.port)
		}
	}
	health := startHealth(t, s)
	names := startNames(t, s)

	file, scrape := filepath.Join(t.TempDir(), "logs.json"), freeport.Endpoint(t)
	host, port, err := net.SplitHostPort(scrape)
	require.NoError(t, err)
	c := start(t, binary, fmt.Sprintf(everyRequest, strings.Join(s.targets, ", "), file, host, port), nil)
	untilLogged(t, file, slices.Concat(warming(t, curl, serving), health.warming(t), names.warming(t)))
	// What was on its way when a library was attached to.
	before, interrupted := losses(t, scrape, "request_unpaired"), losses(t, scrape, "request_interrupted")
	opaque := losses(t, scrape, "tls_opaque_java")
	if slices.ContainsFunc(serving, func(of *realServer) bool {
		return slices.ContainsFunc(of.listeners, func(l listener) bool { return l.opaque != "" })
	}) {
		opaque++
	}
	for _, of := range serving {
		of.ask(t, curl)
	}
	health.ask(t)
	names.ask(t)
	require.Eventually(t, func() bool { return losses(t, scrape, "tls_opaque_java") >= opaque }, time.Minute, 100*time.Millisecond,
		"that nothing is seen of connections by Java's TLS is counted")
	unpaired, undecided := losses(t, scrape, "request_unpaired")-before, losses(t, scrape, "undecided")
	interrupted = losses(t, scrape, "request_interrupted") - interrupted
	missed := losses(t, scrape, "program_busy") > 0
	for line := range strings.Lines(get(t, "http://"+scrape+"/metrics")) {
		if strings.HasPrefix(line, "otelcol_ebpf_events_lost") && !strings.HasSuffix(line, " 0\n") {
			t.Log(strings.TrimSpace(line))
		}
	}
	c.stop()
	require.NotContains(t, c.log.String(), "\terror\t")

	logged := readRequests(t, file)
	for _, of := range serving {
		if of.leftOut() { // make test-long runs it
			continue
		}
		t.Run(of.name, func(t *testing.T) {
			if of.absent() {
				t.Skipf("%s is not there: %s", of.needs, of.install)
			}
			of.require(t, logged, missed)
		})
	}
	require.True(t, missed || unpaired == 0, "%d responses without their requests", unpaired)
	require.True(t, missed || interrupted == 0, "%d times bytes were missing", interrupted)
	t.Run("behind proxies", func(t *testing.T) { requireProxied(t, logged, s, serving, missed) })
	t.Run("grpc-go", func(t *testing.T) { health.require(t, logged, missed) })
	t.Run("DNS", func(t *testing.T) { names.require(t, logged, int(undecided), missed) })
}

// newSite makes what servers need, readable by the users that they become, and the server that is behind those that are proxies.
func newSite(t *testing.T) *site {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "servers-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	s := &site{dir: dir, targets: []string{fmt.Sprintf("{pid: %d}", os.Getpid())}}
	s.cert, s.key, err = workload.Certificate(dir)
	require.NoError(t, err)
	cert, err := os.ReadFile(s.cert)
	require.NoError(t, err)
	key, err := os.ReadFile(s.key)
	require.NoError(t, err)
	s.pem = s.file(t, "both.pem", string(cert)+string(key))
	s.file(t, "here", "here")
	s.backend = serveHere(t, answerPaths(), nil).Addr().(*net.TCPAddr).Port
	return s
}

func (s *site) file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

// answerPaths answers as all servers of the site do.
func answerPaths() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/here", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("go")) })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(slowPause)
		_, _ = w.Write([]byte("late"))
	})
	return mux
}

// requests are those that were logged, by role, the server's port and the version.
type requests map[requestsKey][]plog.LogRecord

type requestsKey struct {
	pid     int64
	role    string
	port    string
	version string
}

// readRequests reads the logs of requests, in the order of their times.
func readRequests(t *testing.T, file string) requests {
	t.Helper()
	all := requests{}
	for _, of := range readLogs(t, file) {
		if of.EventName() == "ebpf.request" {
			key := requestsKey{of.pid, text(of.Attributes(), "ebpf.role"), text(of.Attributes(), "server.port"), text(of.Attributes(), "network.protocol.version")}
			all[key] = append(all[key], of.LogRecord)
		}
	}
	for _, list := range all {
		slices.SortStableFunc(list, func(a, b plog.LogRecord) int { return int(a.Timestamp()) - int(b.Timestamp()) })
	}
	return all
}

// of are the requests that a listener's server was asked.
func (r requests) of(l listener, version string) []plog.LogRecord {
	return r[requestsKey{int64(l.pid), "server", fmt.Sprint(l.port), version}]
}

// statuses counts requests by path and status; those to get everything going are left out.
func statuses(list []plog.LogRecord) map[string]int {
	counted := map[string]int{}
	for _, l := range list {
		if path := text(l.Attributes(), "url.path"); path != "/warm" {
			counted[path+" "+text(l.Attributes(), "http.response.status_code")]++
		}
	}
	return counted
}

// require checks that the logged requests are those that curl made.
func (of *realServer) require(t *testing.T, logged requests, missed bool) {
	for _, l := range of.listeners {
		timed := of.timed(t, l)
		for _, version := range l.versions {
			asked, list := of.asked[listenerVersion{l.port, version}], logged.of(l, version)
			name := fmt.Sprintf("%s, HTTP/%s", l.scheme(), version)
			if l.opaque != "" {
				require.Empty(t, list, name)
				continue
			}
			want := map[string]int{}
			for _, a := range asked {
				want[a.path+" "+a.status]++
			}
			require.Equal(t, map[string]int{"/here 200": times("/here"), "/absent 404": times("/absent"), "/slow 200": times("/slow")}, want, "%s: curl", name)
			requireCounts(t, want, statuses(list), missed, name)
			for _, r := range list {
				require.Equal(t, l.scheme(), text(r.Attributes(), "url.scheme"), name)
				require.Equal(t, l.tls, text(r.Attributes(), "ebpf.tls") == "true", name)
				require.Equal(t, "http", text(r.Attributes(), "network.protocol.name"), name)
			}
			if missed {
				continue // the paths of these are not known
			}
			requireDurations(t, name, l, asked, timed[version], list)
		}
		if l.logs != nil {
			requireCounts(t, of.logged(t, l), statuses(logged.ofPort(l)), missed, "what it has logged itself")
		}
	}
}

// requireCounts checks that as many requests were logged as there were. Where the kernel did not run a program, because it was running on
// the same CPU already, bytes are missing, and with them some requests, or fields to which later ones of HTTP/2 refer.
func requireCounts(t *testing.T, want, got map[string]int, missed bool, name string) {
	t.Helper()
	if !missed {
		require.Equal(t, want, got, name)
		return
	}
	t.Logf("%s: the kernel left out programs: %v of %v", name, got, want)
	all := func(counts map[string]int) (sum int) {
		for _, n := range counts {
			sum += n
		}
		return sum
	}
	require.LessOrEqual(t, all(got), all(want), name)
}

func (r requests) ofPort(l listener) (list []plog.LogRecord) {
	for _, version := range l.versions {
		list = append(list, r.of(l, version)...)
	}
	return list
}

// logged counts what a server has logged of a port, in lines of the port, the path and the status.
func (of *realServer) logged(t *testing.T, l listener) map[string]int {
	t.Helper()
	counted := map[string]int{}
	for line := range strings.Lines(l.logs(t)) {
		fields := strings.Fields(line)
		if len(fields) >= 3 && fields[0] == fmt.Sprint(l.port) && fields[1] != "/warm" && fields[1] != "<BADREQ>" { // HAProxy names so a connection without a request
			counted[fields[1]+" "+fields[2]]++
		}
	}
	return counted
}

// timed is what a server says itself of the requests of each version, which were asked one after the other.
func (of *realServer) timed(t *testing.T, l listener) map[string][]answered {
	t.Helper()
	if l.times == nil || !inLongForm() {
		return nil
	}
	var all []answered
	for line := range strings.Lines(l.times(t)) {
		var port int
		var a answered
		var us int64
		if n, _ := fmt.Sscan(line, &port, &a.path, &a.status, &us); n == 4 && port == l.port && a.path != "/warm" {
			a.took = time.Duration(us) * time.Microsecond
			all = append(all, a)
		}
	}
	timed := map[string][]answered{}
	for _, version := range l.versions {
		n := len(of.asked[listenerVersion{l.port, version}])
		require.GreaterOrEqual(t, len(all), n, "what the server has logged of port %d", l.port)
		timed[version], all = all[:n], all[n:]
	}
	require.Empty(t, all)
	return timed
}

// byPath are the durations of requests by path, in their order.
func byPath(list []answered) map[string][]time.Duration {
	by := map[string][]time.Duration{}
	for _, a := range list {
		by[a.path] = append(by[a.path], a.took)
	}
	return by
}

// requireDurations holds that requests, which were asked for one after the other, took as long as the client says or the server itself: of
// each path that quarter which other work disturbed least within 5 % or 200 µs. What the client says has the time in it that both sides take
// to wake up, some 100 µs each where CPUs of a virtual machine sleep meanwhile; what the server says begins when it has understood what it has
// read. In the short form only that slow ones were slow, for a busy machine makes clients wait.
func requireDurations(t *testing.T, name string, l listener, asked, timed []answered, list []plog.LogRecord) {
	t.Helper()
	by, itself := map[string][2][]time.Duration{}, byPath(timed) // by: as the client measured, as logged
	for path, said := range byPath(asked) {
		by[path] = [2][]time.Duration{said}
	}
	for _, l := range list {
		path := text(l.Attributes(), "url.path")
		both, known := by[path]
		if !known {
			continue
		}
		took, _ := l.Attributes().Get("ebpf.request.duration")
		both[1] = append(both[1], time.Duration(took.Double()*float64(time.Second)))
		by[path] = both
	}
	for _, path := range slices.Sorted(maps.Keys(by)) {
		said, exported := by[path][0], by[path][1]
		require.Len(t, exported, len(said), name)
		median, off := within(t, name+" "+path+": by the client", said, exported)
		if path == "/slow" {
			require.GreaterOrEqual(t, slices.Min(exported), slowPause-2*time.Millisecond, "%s: timers of Node.js are up to 1 ms early", name)
		}
		if !inLongForm() {
			continue
		}
		if l.delayed { // the client's time is not the server's
			if path == "/slow" {
				require.Less(t, slices.Min(exported), slowPause+slowPause/20, name)
			}
			continue
		}
		if logged := itself[path]; logged != nil {
			require.Len(t, logged, len(exported), name)
			_, less := within(t, name+" "+path+": by the server", logged, exported)
			off = min(off, less)
		}
		allowed := math.Max(0.05*median.Seconds(), 200e-6) + l.early.Seconds()
		require.LessOrEqual(t, off.Seconds(), allowed, "%s %s", name, path)
	}
}

// within returns the median of the durations said, and by how much the exported ones of the closest quarter differ.
func within(t *testing.T, name string, said, exported []time.Duration) (median, off time.Duration) {
	t.Helper()
	apart := make([]time.Duration, len(said))
	for i := range said {
		apart[i] = (said[i] - exported[i]).Abs()
	}
	slices.Sort(apart)
	median, off = slices.Sorted(slices.Values(said))[len(said)/2], apart[len(apart)/4]
	t.Logf("%s %v; exported within %v, %v and %v", name, median, off, apart[len(apart)/2], apart[len(apart)-1])
	return median, off
}

// requireProxied checks that the requests of proxies to their upstream are logged, and those that the server behind them got.
func requireProxied(t *testing.T, logged requests, s *site, serving []*realServer, missed bool) {
	want, asked, answered, here := 0, 0, 0, map[string]bool{}
	for _, of := range serving {
		for _, l := range of.listeners {
			here[fmt.Sprint(l.port)] = l.pid == os.Getpid()
			if l.logs != nil { // those that are proxies
				want += len(l.versions) * times("/slow")
			}
		}
	}
	if want == 0 {
		t.Skip("no server that is a proxy is installed: apt-get install nginx-light apache2-bin haproxy")
	}
	for key, list := range logged {
		for _, l := range list {
			switch peer := text(l.Attributes(), "network.peer.port"); {
			case text(l.Attributes(), "url.path") != "/slow":
			case key.role == "client" && peer == fmt.Sprint(s.backend):
				asked++
				require.Equal(t, fmt.Sprint(os.Getpid()), text(l.Attributes(), "ebpf.peer.pid"))
			case key.role == "server" && key.pid == int64(os.Getpid()) && !here[key.port]:
				answered++
			}
		}
	}
	requireCounts(t, map[string]int{"": want}, map[string]int{"": asked}, missed, "as clients")
	requireCounts(t, map[string]int{"": want}, map[string]int{"": answered}, missed, "by the server behind them")
}

// losses is how much the receiver says it has lost for a reason.
func losses(t *testing.T, address, reason string) (sum int64) {
	t.Helper()
	page := get(t, "http://"+address+"/metrics")
	for _, n := range samples(page, "otelcol_ebpf_events_lost", fmt.Sprintf("reason=%q", reason)) {
		sum += n
	}
	return sum
}
