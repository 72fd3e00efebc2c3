// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

// talk is a connection both ends of which are in this process.
type talk struct {
	t      *testing.T
	client net.Conn
	server net.Conn
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	client, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	server, err := listener.Accept()
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return &talk{t, client, server}
}

// asks makes the client send a text, answers the server; it is read by as many calls as it was written.
func (c *talk) asks(text string)    { c.carry(c.client, c.server, text) }
func (c *talk) answers(text string) { c.carry(c.server, c.client, text) }

func (c *talk) carry(from, to net.Conn, text string) {
	c.t.Helper()
	_, err := io.WriteString(from, text)
	require.NoError(c.t, err)
	_, err = io.ReadFull(to, make([]byte, len(text)))
	require.NoError(c.t, err)
}

func (c *talk) end() {
	c.t.Helper()
	require.NoError(c.t, c.client.Close())
	require.NoError(c.t, c.server.Close())
}

// overheard is what was reported of the requests of a process, and what has left the kernel for it.
type overheard struct {
	mu       sync.Mutex
	requests map[string]int   // by role, method, path and status
	bodies   map[string]int64 // bytes of them, by the same keys
	carried  int              // bytes
	segments int
}

// overhear makes a configuration record the requests of this process.
func overhear(c *Config) *overheard { return overhearOf(c, uint32(os.Getpid())) }

// overhearOf makes a configuration record the requests of a process.
func overhearOf(c *Config, process uint32) *overheard {
	o := newOverheard()
	c.left = func(pid, _ uint32, carried int) {
		if pid == process {
			o.left(carried)
		}
	}
	c.exchanged = func(pid uint32, e *l7.Exchange) {
		if pid == process {
			o.exchanged(e)
		}
	}
	return o
}

func newOverheard() *overheard {
	return &overheard{requests: map[string]int{}, bodies: map[string]int64{}}
}

// left records a segment that has left the kernel with so many bytes.
func (o *overheard) left(carried int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.carried += carried
	o.segments++
}

// exchanged records a request that was reported.
func (o *overheard) exchanged(e *l7.Exchange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d, ok := e.Operation.(*dns.Exchange); ok {
		o.requests[fmt.Sprintf("%s DNS %s %d of %d", e.Role, d.Questions[0].Name, len(d.Questions), d.QuestionCount)]++
		return
	}
	method := httpexchange.Of(e).Method
	if method == rfc9110.OtherMethod {
		method = string(httpexchange.Of(e).OriginalMethod)
	}
	key := fmt.Sprintf("%s %s %s %d", e.Role, method, httpexchange.Of(e).Path, httpexchange.Of(e).Status)
	o.requests[key]++
	o.bodies[key] += e.Request.Body + e.Response.Body
}

// bytesOfBodies returns the bytes of the bodies of all requests with this role, method, path and status until now, and of their responses.
func (o *overheard) bytesOfBodies(key string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bodies[key]
}

// take returns what was recorded since the last call.
func (o *overheard) take() (requests map[string]int, carried, segments int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	requests, carried, segments = o.requests, o.carried, o.segments
	o.requests, o.carried, o.segments = map[string]int{}, 0, 0
	return requests, carried, segments
}

// overhearEachWay runs a test with an observer whose exchanges are recorded. Tests that follow each other share it.
func overhearEachWay(t *testing.T, test func(t *testing.T, w *watching, o *overheard)) {
	t.Helper()
	runEachWay(t, func(t *testing.T, by *way) {
		w, o := by.overhear(t)
		test(t, w, o)
	})
}

// overhearAlone is overhearEachWay with an observer that the test may stop.
func overhearAlone(t *testing.T, test func(t *testing.T, w *watching, o *overheard)) {
	t.Helper()
	runEachWay(t, func(t *testing.T, by *way) {
		c := requestConfig()
		o := overhear(&c)
		test(t, watch(t, c, by.change), o)
	})
}

// overhearUntilSeen runs a test with an observer whose exchanges are recorded, until all of the test was captured.
func overhearUntilSeen(t *testing.T, test func(t *testing.T, w *watching, o *overheard) (seen bool)) {
	t.Helper()
	runEachWayUntilSeen(t, func(t *testing.T, by *way) bool {
		w, o := by.overhear(t)
		return test(t, w, o)
	})
}

// overhear returns the observer whose exchanges are recorded, and what is recorded until the end of the test.
func (by *way) overhear(t *testing.T) (*watching, *overheard) {
	t.Helper()
	if by.recorded == nil {
		process := uint32(os.Getpid())
		c := requestConfig()
		c.left = func(pid, _ uint32, carried int) {
			if o := by.recording.Load(); o != nil && pid == process {
				o.left(carried)
			}
		}
		c.exchanged = func(pid uint32, e *l7.Exchange) {
			if o := by.recording.Load(); o != nil && pid == process {
				o.exchanged(e)
			}
		}
		by.recorded = observing(t, c, by.change)
	}
	w := by.recorded
	w.begin(t)
	o := newOverheard()
	by.recording.Store(o)
	t.Cleanup(func() {
		by.recording.Store(nil)
		if t.Failed() { // later tests are not judged by what is left of this one
			require.NoError(t, endRecorded())
		}
	})
	return w, o
}

// wait waits until the wanted requests were reported, and returns all.
func (o *overheard) wait(t *testing.T, w *watching, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	require.Eventually(t, func() bool {
		w.handed()
		requests, _, _ := o.take()
		for key, n := range requests {
			got[key] += n
		}
		for key, n := range want {
			if got[key] < n {
				return w.missed() > 0 // a program that the kernel skipped has recorded nothing
			}
		}
		return true
	}, time.Minute, readInterval, "want %v, got %v", want, got)
	if w.missed() == 0 {
		require.Equal(t, want, got)
	}
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// TestMethodsThatFewUse checks that the first request of a connection is reported with its method and its path, whatever the method.
func TestMethodsThatFewUse(t *testing.T) {
	guest.SameOnEveryKernel(t)
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		want := map[string]int{}
		for _, method := range []string{"GET", "OPTIONS", "QUERY", "PROPFIND", "REPORT", "MKCOL", "PURGE", "BAN", "LOCK", "SUBSCRIBE", "UNSUBSCRIBE", "X-MINE", "VERSION_2"} {
			for _, target := range []string{"/first/" + strings.ToLower(method), "http://shop.example/first/" + strings.ToLower(method)} {
				c := newTalk(t)
				c.asks(method + " " + target + " HTTP/1.1\r\nHost: shop.example\r\n\r\n")
				c.answers(fine)
				c.end()
			}
			for _, role := range []string{"client", "server"} {
				want[role+" "+method+" /first/"+strings.ToLower(method)+" 200"] = 2
			}
		}
		c := newTalk(t)
		c.asks("M-SEARCH * HTTP/1.1\r\nHost: shop.example\r\n\r\n")
		c.answers(fine)
		c.end()
		want["client M-SEARCH * 200"], want["server M-SEARCH * 200"] = 1, 1
		o.wait(t, w, want)
	})
}

// TestFirstBytesByThemselves checks that a connection's first request, whose first bytes are read or written separately, is reported
// completely, and so is its response; and that what continues as no request is not reported.
func TestFirstBytesByThemselves(t *testing.T) {
	guest.SameOnEveryKernel(t)
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		want := map[string]int{}
		for _, first := range []int{1, 2, 3, 4, 5, 7, 8} {
			for _, method := range []string{"GET", "POST", "HEAD", "PUT"} {
				path := fmt.Sprintf("/first/%d", first)
				request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 0\r\n\r\n", method, path)
				c := newTalk(t)
				for range 2 {
					c.asks(request[:first])
					c.asks(request[first:])
					c.answers(fine[:first])
					c.answers(fine[first:])
				}
				c.end()
				for _, role := range []string{"client", "server"} {
					want[role+" "+method+" "+path+" 200"] = 2
				}
			}
		}
		for _, text := range []string{"Good morning\r\n", "PING\r\n", "HELLO\r\n", "Perhaps not\r\n", "PUT job 17\r\n"} {
			c := newTalk(t)
			for range 3 {
				c.asks(text[:1])
				c.asks(text[1:])
				c.answers("OK\r\n")
			}
			c.asks("GET /late HTTP/1.1\r\nHost: shop.example\r\n\r\n")
			c.answers(fine)
			c.end()
		}
		for _, role := range []string{"client", "server"} {
			want[role+" GET /late 200"] = 5
		}
		o.wait(t, w, want)
	})
}

// TestTextThatIsNotHTTP checks that other protocols whose lines resemble requests are not taken for HTTP.
func TestTextThatIsNotHTTP(t *testing.T) {
	guest.SameOnEveryKernel(t)
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		for _, line := range []string{
			"EHLO shop.example\r\n", "VRFY /home\r\n", "KEYS *\r\n", "SET /cart/1 two\r\n", "DEL /cart/1 /cart/2\r\n", "CWD /pub/linux/kernel\r\n",
			"A001 LOGIN mrc secret\r\n", "LIST /pub\r\n", "RETR /pub/a HTTP\r\n", "OPTIONS rtsp://cam.example/1 RTSP/1.0\r\nCSeq: 1\r\n\r\n",
			"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n", "OPTIONS sip:carol@chicago.example SIP/2.0\r\nVia: x\r\n\r\n", "SETUP /1 RTSP/1.0\r\nCSeq: 3\r\n\r\n",
			"GET key\r\n", "get /key\r\n", "STOR /" + strings.Repeat("x", 600) + "\r\n", "PROXY UNKNOWN\r\n", "HELLO /world", "UT /world HTTP/1.1\r\n\r\n",
		} {
			c := newTalk(t)
			for range 3 {
				c.asks(line)
				c.answers("+OK\r\n")
			}
			c.end()
		}
		w.settle()
		requests, carried, segments := o.take()
		require.Empty(t, requests)
		require.Zero(t, segments, "%d bytes have left the kernel", carried)
	})
}

// proxyHeader2 returns a header of version 2 of the PROXY protocol, with a list of so many bytes behind the addresses.
func proxyHeader2(more int) string {
	header := []byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02\x9c\x40\x00\x50")
	binary.BigEndian.PutUint16(header[14:], uint16(12+more))
	return string(header) + strings.Repeat("\x04", more)
}

// TestProxyProtocol checks that the protocol behind a header of the PROXY protocol is recognized, in one segment with it or not.
func TestProxyProtocol(t *testing.T) {
	guest.SameOnEveryKernel(t)
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
		headers := map[string]string{
			"1": "PROXY TCP4 192.168.100.200 192.168.100.201 56324 443\r\n", "unknown": "PROXY UNKNOWN\r\n", "2": proxyHeader2(0), "local": "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00",
			"ipv6": "PROXY TCP6 2001:0db8:0000:0000:0000:0000:0000:0001 2001:0db8:0000:0000:0000:0000:0000:0002 56324 443\r\n", "listed": proxyHeader2(700),
		}
		want := map[string]int{}
		for name, header := range headers {
			for _, apart := range []bool{true, false} {
				get := "GET /" + name + " HTTP/1.1\r\nHost: shop.example\r\n\r\n"
				// :method GET, :scheme http, :path /name, :authority h; then :status 200
				fields := "\x82\x86\x04" + string(rune(len(name)+3)) + "/2-" + name + "\x41\x01h"
				begins := preface + "\x00\x00" + string(rune(len(fields))) + "\x01\x05\x00\x00\x00\x01" + fields
				for request, answer := range map[string]string{get: fine, begins: "\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x01\x05\x00\x00\x00\x01\x88"} {
					c := newTalk(t)
					if apart {
						c.asks(header)
						c.asks(request)
					} else {
						c.asks(header + request)
					}
					c.answers(answer)
					c.end()
				}
			}
			for _, role := range []string{"client", "server"} {
				want[role+" GET /"+name+" 200"], want[role+" GET /2-"+name+" 200"] = 2, 2
			}
		}
		o.wait(t, w, want)
	})
}

// TestWhatIsNoHTTPAnyMoreStaysInTheKernel checks that the programs capture no more of a connection once it has left HTTP/1 for an unknown
// protocol, that they inspect what comes afterwards, and that an upgrade to HTTP/2 is followed.
func TestWhatIsNoHTTPAnyMoreStaysInTheKernel(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const most = 40 // segments until it is recognized, and those that were under way
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		frame := "\x82\x7e\x01\x00" + strings.Repeat("\x00", 256)
		for name, c := range map[string]struct{ asks, answers, want string }{
			"websocket": {"GET /chat HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "GET /chat 101"},
			"tunnel":    {"CONNECT ssh.example:22 HTTP/1.1\r\n\r\n", "HTTP/1.1 200 Connection established\r\n\r\n", "CONNECT  200"},
			"refused":   {"GET /key-of-redis\r\n", "$3\r\nabc\r\n", ""},
		} {
			talk := newTalk(t)
			talk.asks(c.asks)
			talk.answers(c.answers)
			for range 4 { // rounds of the reader, in any of which it may be recognized
				for range 64 {
					talk.asks(frame)
					talk.answers(frame)
				}
				w.handed()
			}
			requests, _, _ := o.take()
			want := map[string]int{}
			if c.want != "" {
				want["client "+c.want], want["server "+c.want] = 1, 1
			}
			if w.missed() == 0 {
				require.Equal(t, want, requests, name)
			}
			for range 200 {
				talk.asks(frame)
				talk.answers(frame)
			}
			w.handed()
			_, carried, segments := o.take()
			require.Zero(t, carried, name)
			require.LessOrEqual(t, segments, most, name)
			// What comes then is inspected again.
			talk.asks("GET /within HTTP/1.1\r\n\r\n")
			talk.answers(fine)
			o.wait(t, w, map[string]int{"client GET /within 200": 1, "server GET /within 200": 1})
			talk.end()
		}
		talk := newTalk(t)
		talk.asks("GET /h2c HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n")
		talk.answers("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		talk.asks("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		talk.answers("\x00\x00\x01\x01\x05\x00\x00\x00\x01\x88")
		talk.asks("\x00\x00\x07\x01\x05\x00\x00\x00\x03\x82\x86\x84\x41\x02ab")
		talk.answers("\x00\x00\x01\x01\x05\x00\x00\x00\x03\x88")
		talk.end()
		w.handed()
		requests, _, _ := o.take()
		if w.missed() == 0 {
			require.Equal(t, 1, requests["server GET /h2c 101"], requests)
			require.Equal(t, 1, requests["server GET / 200"], requests)
			require.Equal(t, 1, requests["client GET / 200"], requests)
		}
	})
}

// TestLookupsWithSeveralQuestions checks that a lookup is recognized by its header even with several questions, over UDP and TCP.
func TestLookupsWithSeveralQuestions(t *testing.T) {
	guest.SameOnEveryKernel(t)
	overhearEachWay(t, func(t *testing.T, w *watching, o *overheard) {
		want := map[string]int{}
		for _, network := range []string{"udp", "tcp"} {
			for _, questions := range []int{1, 2, 16} {
				m := dnsmessage.Message{Header: dnsmessage.Header{ID: uint16(questions)}}
				name := fmt.Sprintf("%s-%d.shop.example.", network, questions)
				for range questions {
					m.Questions = append(m.Questions, dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET})
				}
				query, err := m.Pack()
				require.NoError(t, err)
				m.Response = true
				answer, err := m.Pack()
				require.NoError(t, err)
				c := newTalk(t)
				prefix := func(message []byte) string {
					return string(binary.BigEndian.AppendUint16(nil, uint16(len(message)))) + string(message)
				}
				if network == "udp" {
					c.end()
					c = newDatagrams(t)
					prefix = func(message []byte) string { return string(message) }
				}
				c.asks(prefix(query))
				c.answers(prefix(answer))
				c.end()
				for _, role := range []string{"client", "server"} {
					want[fmt.Sprintf("%s DNS %s %d of %d", role, name, questions, questions)] = 1
				}
			}
		}
		o.wait(t, w, want)
	})
}

// newDatagrams connects two sockets for datagrams with each other.
func newDatagrams(t *testing.T) *talk {
	t.Helper()
	first, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	client, err := net.Dial("udp4", first.LocalAddr().String())
	require.NoError(t, err)
	at := first.LocalAddr().(*net.UDPAddr)
	require.NoError(t, first.Close())
	server, err := net.DialUDP("udp4", at, client.LocalAddr().(*net.UDPAddr))
	require.NoError(t, err)
	return &talk{t, client, server}
}
