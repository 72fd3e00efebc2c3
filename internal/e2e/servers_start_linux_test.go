// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
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
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

// systemPython is the one for which packages of Python are installed.
const systemPython = "/usr/bin/python3"

// Programs that Debian has not: make test-long fetches them.
const (
	fetched     = "../../_build/servers"
	envoy       = fetched + "/envoy"
	nettyBoring = fetched + "/netty"
	openSSL102  = fetched + "/openssl-1.0.2"
	openSSL111  = fetched + "/openssl-1.1.1"
	fetch       = "make fetch-servers"
)

// leftOut reports whether the server is for the long form alone.
func (of *realServer) leftOut() bool { return of.long && !inLongForm() }

func (of *realServer) absent() bool {
	if strings.Contains(of.needs, "/") {
		_, err := os.Stat(of.needs)
		return err != nil
	}
	_, err := exec.LookPath(of.needs)
	return of.needs != "" && err != nil
}

// run starts a server, which ends with the test, and has it observed.
func (s *site) run(t *testing.T, cmd *exec.Cmd) (pid int) {
	t.Helper()
	require.NoError(t, cmd.Start())
	return s.follow(t, cmd)
}

// follow is the same of one that was started.
func (s *site) follow(t *testing.T, cmd *exec.Cmd) (pid int) {
	t.Helper()
	s.targets = append(s.targets, fmt.Sprintf("{pid: %d}", cmd.Process.Pid))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return cmd.Process.Pid
}

// ports starts a server that prints its ports.
func (s *site) ports(t *testing.T, cmd *exec.Cmd) (pid int, ports []int) {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	pid = s.run(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	for port := range strings.FieldsSeq(line) {
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		ports = append(ports, n)
	}
	return pid, ports
}

func awaitPort(t *testing.T, name string, port int) {
	t.Helper()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		return err == nil && conn.Close() == nil
	}, time.Minute, 10*time.Millisecond, "%s does not listen on port %d", name, port)
}

// logOf reads a server's log.
func logOf(path string) func(t *testing.T) string {
	return func(t *testing.T) string { return readText(t, path) }
}

func serveNginx(t *testing.T, s *site) []listener {
	plain, clear2, secure, log := freeport.For(t), freeport.For(t), freeport.For(t), s.dir+"/nginx.log"
	config := s.file(t, "nginx.conf", fmt.Sprintf(`
daemon off; master_process off; user root; pid %[1]s/nginx.pid; error_log stderr crit;
events { worker_connections 64; }
http {
	log_format requests '$server_port $request_uri $status'; access_log %[2]s requests;
	keepalive_requests 100000;
	server {
		listen 127.0.0.1:%[3]d; listen 127.0.0.1:%[4]d http2;
		listen 127.0.0.1:%[5]d ssl http2; ssl_certificate %[6]s; ssl_certificate_key %[7]s;
		root %[1]s;
		location /slow { proxy_pass http://127.0.0.1:%[8]d; }
	}
}`, s.dir, log, plain, clear2, secure, s.cert, s.key, s.backend))
	pid := s.run(t, exec.Command("nginx", "-p", s.dir, "-c", config))
	return []listener{
		{pid: pid, port: plain, versions: []string{"1.1"}, logs: logOf(log)},
		{pid: pid, port: clear2, versions: []string{"2"}, logs: logOf(log)},
		{pid: pid, port: secure, tls: true, versions: []string{"1.1", "2"}, logs: logOf(log)},
	}
}

func serveApache(t *testing.T, s *site) []listener {
	plain, secure, log := freeport.For(t), freeport.For(t), s.dir+"/apache.log"
	modules := ""
	for _, module := range []string{"mpm_event", "authz_core", "ssl", "socache_shmcb", "http2", "proxy", "proxy_http"} {
		modules += fmt.Sprintf("LoadModule %[1]s_module /usr/lib/apache2/modules/mod_%[1]s.so\n", module)
	}
	config := s.file(t, "apache.conf", fmt.Sprintf(`%[1]s
ServerName 127.0.0.1
ServerRoot %[2]s
DefaultRuntimeDir %[2]s
PidFile %[2]s/apache.pid
ErrorLog %[2]s/apache-errors.log
User nobody
Group nogroup
Listen 127.0.0.1:%[3]d
Listen 127.0.0.1:%[4]d
Protocols h2 h2c http/1.1
MaxKeepAliveRequests 0
DocumentRoot %[2]s
LogFormat "%%{local}p %%U %%>s %%D" requests
CustomLog %[5]s requests
ProxyPass /slow http://127.0.0.1:%[6]d/slow
<VirtualHost 127.0.0.1:%[4]d>
	SSLEngine on
	SSLCertificateFile %[7]s
	SSLCertificateKeyFile %[8]s
	CustomLog %[5]s requests
</VirtualHost>
`, modules, s.dir, plain, secure, log, s.backend, s.cert, s.key))
	pid := s.run(t, exec.Command("apache2", "-X", "-f", config))
	return []listener{
		{pid: pid, port: plain, versions: []string{"1.1", "2"}, logs: logOf(log), times: logOf(log)},
		{pid: pid, port: secure, tls: true, versions: []string{"1.1", "2"}, logs: logOf(log), times: logOf(log)},
	}
}

func serveHAProxy(t *testing.T, s *site) []listener {
	plain, secure, log := freeport.For(t), freeport.For(t), s.dir+"/haproxy.log"
	config := s.file(t, "haproxy.cfg", fmt.Sprintf(`
global
	log stdout format raw local0
	nbthread 2
defaults
	mode http
	log global
	timeout connect 5s
	timeout client 30s
	timeout server 30s
frontend web
	bind 127.0.0.1:%[1]d
	bind 127.0.0.1:%[2]d ssl crt %[3]s alpn h2,http/1.1
	log-format "%%fp %%HPO %%ST"
	http-request return status 200 content-type text/plain string haproxy if { path /here }
	http-request return status 404 content-type text/plain string absent if ! { path /slow }
	default_backend slow
backend slow
	server one 127.0.0.1:%[4]d
`, plain, secure, s.pem, s.backend))
	cmd := exec.Command("haproxy", "-db", "-f", config)
	out, err := os.Create(log)
	require.NoError(t, err)
	defer func() { require.NoError(t, out.Close()) }()
	cmd.Stdout = out
	pid := s.run(t, cmd)
	return []listener{
		{pid: pid, port: plain, versions: []string{"1.1", "2"}, logs: logOf(log)},
		{pid: pid, port: secure, tls: true, versions: []string{"1.1", "2"}, logs: logOf(log)},
	}
}

func (s *site) pause() string { return fmt.Sprint(slowPause.Milliseconds()) }

func serveNode(t *testing.T, s *site) []listener {
	log := s.dir + "/node.log"
	pid, ports := s.ports(t, exec.Command("node", "testdata/servers/node.js", s.cert, s.key, s.pause(), log))
	return []listener{
		{pid: pid, port: ports[0], versions: []string{"1.1"}, times: logOf(log)},
		{pid: pid, port: ports[1], versions: []string{"2"}, times: logOf(log)},
		{pid: pid, port: ports[2], tls: true, versions: []string{"1.1", "2"}, times: logOf(log)},
	}
}

func servePython(t *testing.T, s *site) []listener {
	pid, ports := s.ports(t, exec.Command(systemPython, "testdata/servers/server.py", s.cert, s.key, s.pause()))
	return []listener{{pid: pid, port: ports[0], versions: []string{"1.1"}}, {pid: pid, port: ports[1], tls: true, versions: []string{"1.1"}}}
}

func (s *site) asgiLog() string { return s.dir + "/asgi.log" }

// serveASGI starts a server for the application of the test.
func (s *site) serveASGI(t *testing.T, args ...string) (pid int) {
	t.Helper()
	cmd := exec.Command(systemPython, args...)
	cmd.Dir, cmd.Env = "testdata/servers", append(os.Environ(), "PAUSE="+s.pause(), "LOG="+s.asgiLog(), "PYTHONDONTWRITEBYTECODE=1")
	return s.run(t, cmd)
}

func serveUvicorn(t *testing.T, s *site) []listener {
	run := func(args ...string) (pid, port int) {
		port = freeport.For(t)
		return s.serveASGI(t, append([]string{"-m", "uvicorn", "app:app", "--log-level", "critical", "--port", strconv.Itoa(port)}, args...)...), port
	}
	plain, plainPort := run()
	secure, securePort := run("--ssl-certfile", s.cert, "--ssl-keyfile", s.key)
	return []listener{
		{pid: plain, port: plainPort, versions: []string{"1.1"}, times: logOf(s.asgiLog())},
		{pid: secure, port: securePort, tls: true, versions: []string{"1.1"}, times: logOf(s.asgiLog())},
	}
}

func serveHypercorn(t *testing.T, s *site) []listener {
	plain, secure := freeport.For(t), freeport.For(t)
	pid := s.serveASGI(t, "app.py", fmt.Sprintf("127.0.0.1:%d", plain), fmt.Sprintf("127.0.0.1:%d", secure), s.cert, s.key)
	return []listener{
		{pid: pid, port: plain, versions: []string{"1.1", "2"}, delayed: true},
		{pid: pid, port: secure, tls: true, versions: []string{"1.1", "2"}, delayed: true},
	}
}

func serveJava(t *testing.T, s *site) []listener {
	const password = "no secret"
	store, log := s.dir+"/store.p12", s.dir+"/java.log"
	said, err := exec.Command("keytool", "-genkeypair", "-alias", "test", "-keyalg", "EC", "-storetype", "PKCS12", "-keystore", store,
		"-storepass", password, "-dname", "CN=127.0.0.1").CombinedOutput()
	require.NoError(t, err, "%s", said)
	pid, ports := s.ports(t, exec.Command("java", "-Dsun.net.httpserver.nodelay=true", "testdata/servers/Server.java", store, password, s.pause(), log))
	return []listener{{pid: pid, port: ports[0], versions: []string{"1.1"}, times: logOf(log)}, {pid: pid, port: ports[1], tls: true, versions: []string{"1.1"}, opaque: "java"}}
}

// serveNetty starts netty with Debian's library for OpenSSL, which looks for itself under the name that it was built with, and not under that which
// Debian gave it.
func serveNetty(t *testing.T, s *site) []listener {
	var classes []string
	for _, part := range []string{"buffer", "codec", "codec-http", "common", "handler", "resolver", "transport", "transport-native-unix-common", "tcnative"} {
		classes = append(classes, "/usr/share/java/netty-"+part+".jar")
	}
	found, err := filepath.Glob("/usr/lib/*/jni/libnetty-tcnative.so")
	require.NoError(t, err)
	require.NotEmpty(t, found, "libnetty-tcnative-jni is not installed")
	library, err := os.ReadFile(found[0])
	require.NoError(t, err)
	s.file(t, "libnetty_tcnative.so", string(library))
	return serveNettyOf(t, s, s.dir+"/netty.log", "-Djava.library.path="+s.dir, "-cp", strings.Join(classes, ":"))
}

// serveNettyBoring starts netty with the BoringSSL that is in a library of its own, which netty takes out of a jar and removes when it is loaded.
func serveNettyBoring(t *testing.T, s *site) []listener {
	return serveNettyOf(t, s, s.dir+"/netty-boring.log", "-Dio.netty.native.workdir="+s.dir, "-cp", nettyBoring+"/*")
}

func serveNettyOf(t *testing.T, s *site, log string, options ...string) []listener {
	pid, ports := s.ports(t, exec.Command("java", append(options, "testdata/servers/Netty.java", s.cert, s.key, s.pause(), log)...))
	return []listener{
		{pid: pid, port: ports[0], versions: []string{"1.1"}, times: logOf(log)},
		{pid: pid, port: ports[1], tls: true, versions: []string{"1.1"}, times: logOf(log), early: 200 * time.Microsecond},
	}
}

// serveLibssl starts a server on the libcrypto and the libssl of a folder.
func serveLibssl(folder, crypto, ssl string) func(t *testing.T, s *site) []listener {
	return func(t *testing.T, s *site) []listener {
		library := func(name string) string {
			found, err := filepath.Glob(filepath.Join(folder, name))
			require.NoError(t, err)
			require.Len(t, found, 1, "%s/%s", folder, name)
			return found[0]
		}
		cmd := exec.Command(systemPython, "testdata/servers/libssl.py", library(crypto), library(ssl), s.cert, s.key, s.pause())
		if strings.HasPrefix(folder, fetched) {
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+folder) // libraries that these need are in the same folder
		}
		pid, ports := s.ports(t, cmd)
		return []listener{{pid: pid, port: ports[0], tls: true, versions: []string{"1.1"}}}
	}
}

// serveStatic starts a server into which OpenSSL is linked, without symbols.
func serveStatic(t *testing.T, s *site) []listener {
	server := s.dir + "/static"
	out, err := exec.Command("gcc", "-O2", "-static", "-s", "-o", server, "testdata/servers/libssl.c", "-lssl", "-lcrypto").CombinedOutput()
	require.NoError(t, err, "%s", out)
	pid, ports := s.ports(t, exec.Command(server, s.cert, s.key, s.pause()))
	return []listener{{pid: pid, port: ports[0], tls: true, versions: []string{"1.1"}}}
}

// envoyConfig is a proxy that has nothing of its own but answers without a body; an upstream is spoken to through TLS.
const envoyConfig = `
static_resources:
  listeners:%s
  clusters:
  - name: slow
    connect_timeout: 5s
    load_assignment: {cluster_name: slow, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}}]}]}
`

// envoyListener is one of its ports.
const envoyListener = `
  - address: {socket_address: {address: 127.0.0.1, port_value: %[1]d}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: requests
          codec_type: AUTO
          access_log:
          - name: requests
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: %[2]s
              log_format: {text_format_source: {inline_string: "%[1]d %%REQ(:PATH)%% %%RESPONSE_CODE%%\n"}}
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - {match: {path: /here}, direct_response: {status: 200, body: {inline_string: envoy}}}
              - {match: {path: /slow}, route: {cluster: slow}}
              - {match: {prefix: /}, direct_response: {status: 404}}
          http_filters: [{name: router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]
%[3]s`

// envoyTLS has a port speak TLS.
const envoyTLS = `
      transport_socket:
        name: tls
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2, http/1.1]
            tls_certificates: [{certificate_chain: {filename: %s}, private_key: {filename: %s}}]
`

func serveEnvoy(t *testing.T, s *site) []listener {
	plain, secure, log := freeport.For(t), freeport.For(t), s.dir+"/envoy.log"
	listeners := fmt.Sprintf(envoyListener, plain, log, "") + fmt.Sprintf(envoyListener, secure, log, fmt.Sprintf(envoyTLS, s.cert, s.key))
	config := s.file(t, "envoy.yaml", fmt.Sprintf(envoyConfig, listeners, s.backend))
	cmd := exec.Command(envoy, "--config-path", config, "--log-level", "error", "--concurrency", "2", "--use-dynamic-base-id")
	// It has itself ended when the thread ends that started it (PR_SET_PDEATHSIG): that one is kept.
	started, ended := make(chan error), make(chan struct{})
	t.Cleanup(func() { close(ended) })
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- cmd.Start()
		<-ended
	}()
	require.NoError(t, <-started)
	pid := s.follow(t, cmd)
	return []listener{
		{pid: pid, port: plain, versions: []string{"1.1", "2"}, logs: logOf(log)},
		{pid: pid, port: secure, tls: true, versions: []string{"1.1", "2"}, logs: logOf(log)},
	}
}

// serveHere serves in this process until the test ends, by HTTP/1.1 and HTTP/2, with TLS if there is a certificate.
func serveHere(t *testing.T, handler http.Handler, cert *tls.Certificate) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &http.Server{Handler: handler, Protocols: &http.Protocols{}}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if cert == nil {
			_ = server.Serve(l) // until it is closed
			return
		}
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*cert}}
		_ = server.ServeTLS(l, "", "")
	}()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-done
	})
	return l
}

func (s *site) certificate(t *testing.T) tls.Certificate {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(s.cert, s.key)
	require.NoError(t, err)
	return cert
}

func serveGo(t *testing.T, s *site) []listener {
	cert := s.certificate(t)
	port := func(cert *tls.Certificate) int { return serveHere(t, answerPaths(), cert).Addr().(*net.TCPAddr).Port }
	return []listener{
		{pid: os.Getpid(), port: port(nil), versions: []string{"1.1", "2"}},
		{pid: os.Getpid(), port: port(&cert), tls: true, versions: []string{"1.1", "2"}},
	}
}

// curls runs curl, which asks for all paths on one connection, and returns what it says of each request.
func curls(t *testing.T, curl string, l listener, version string, paths []string) (list []answered) {
	t.Helper()
	if version == "2" && !l.tls { // of which curl 7.88 asks for one on a connection, and then says that its framing is wrong
		return asksHere(t, l, paths)
	}
	speak := map[string]string{"1.1": "--http1.1", "2": "--http2"}[version]
	var what strings.Builder
	for _, path := range paths {
		fmt.Fprintf(&what, "url = %q\noutput = /dev/null\n", l.url(path))
	}
	cmd := exec.Command(curl, "-sk", speak, "-K", "-", "-w", `%{http_code} %{http_version} %{time_pretransfer} %{time_total}\n`)
	cmd.Stdin = strings.NewReader(what.String())
	said, err := cmd.Output()
	require.NoError(t, err, "%s of %s: %s", l.url(""), commOf(l.pid), said)
	for line := range strings.Lines(string(said)) {
		var status, spoken string
		var ready, total float64
		_, err := fmt.Sscan(line, &status, &spoken, &ready, &total)
		require.NoError(t, err, line)
		require.Equal(t, version, spoken)
		list = append(list, answered{paths[len(list)], status, time.Duration((total - ready) * float64(time.Second))})
	}
	require.Len(t, list, len(paths))
	return list
}

// commOf is the name of a process and its id.
func commOf(pid int) string {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return fmt.Sprintf("%d (%v)", pid, err)
	}
	return fmt.Sprintf("%d (%s)", pid, bytes.TrimSpace(comm))
}

// asksHere requests all paths by plaintext HTTP/2 in this process.
func asksHere(t *testing.T, l listener, paths []string) (list []answered) {
	t.Helper()
	transport := &http.Transport{Protocols: &http.Protocols{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	for _, path := range paths {
		began := time.Now()
		response, err := (&http.Client{Transport: transport}).Get(l.url(path))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		list = append(list, answered{path, strconv.Itoa(response.StatusCode), time.Since(began)})
		require.NoError(t, response.Body.Close())
	}
	return list
}

// warm is a call that is repeated until its requests are logged.
type warm struct {
	what   string
	logged func(requests) bool
	do     func()
}

// warming calls each listener; those that cannot be logged, once.
func warming(t *testing.T, curl string, serving []*realServer) (all []warm) {
	for _, of := range serving {
		for _, l := range of.listeners {
			all = append(all, warm{
				of.name + " at " + l.url(""),
				func(r requests) bool { return l.opaque != "" || len(r.ofPort(l)) > 0 },
				func() { curls(t, curl, l, l.versions[0], []string{"/warm"}) },
			})
		}
	}
	return all
}

// untilLogged repeats all calls until their requests are logged.
func untilLogged(t *testing.T, file string, all []warm) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); len(all) > 0; time.Sleep(100 * time.Millisecond) {
		what := make([]string, len(all))
		for i, w := range all {
			what[i] = w.what
		}
		require.True(t, time.Now().Before(end), "not logged: %v", what)
		for _, w := range all {
			w.do()
		}
		logged := readRequests(t, file)
		all = slices.DeleteFunc(all, func(w warm) bool { return w.logged(logged) })
	}
}

// ask asks each listener for everything.
func (of *realServer) ask(t *testing.T, curl string) {
	t.Helper()
	var paths []string
	for _, path := range []string{"/here", "/absent", "/slow"} {
		for range times(path) {
			paths = append(paths, path)
		}
	}
	of.asked = map[listenerVersion][]answered{}
	for _, l := range of.listeners {
		for _, version := range l.versions {
			of.asked[listenerVersion{l.port, version}] = curls(t, curl, l, version, paths)
		}
	}
}
