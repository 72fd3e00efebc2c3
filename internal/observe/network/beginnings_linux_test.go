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
)

// talk is a connection whose two ends this process has.
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

// asks has the client say something, answers the server; what is said is read by as many calls as it was written.
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

// overheard is what was told of requests of a process, and what has left the kernel for it.
type overheard struct {
	mu       sync.Mutex
	requests map[string]int   // by role, method, path and status
	bodies   map[string]int64 // bytes of them, in the same way
	carried  int              // bytes
	pieces   int
}

// overhear has a configuration tell it.
func overhear(c *Config) *overheard { return overhearOf(c, uint32(os.Getpid())) }

// overhearOf does the same of another process.
func overhearOf(c *Config, process uint32) *overheard {
	o := &overheard{requests: map[string]int{}, bodies: map[string]int64{}}
	c.left = func(pid, _ uint32, carried int) {
		if pid == process {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.carried += carried
			o.pieces++
		}
	}
	c.exchanged = func(pid uint32, e *l7.Exchange) {
		if pid != process {
			return
		}
		if e.DNS != nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.requests[fmt.Sprintf("%s DNS %s %d of %d", e.Role, e.DNS.Questions[0].Name, len(e.DNS.Questions), e.DNS.QuestionCount)]++
			return
		}
		method := e.HTTP.Method
		if method == l7.OtherMethod {
			method = string(e.HTTP.OriginalMethod)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		key := fmt.Sprintf("%s %s %s %d", e.Role, method, e.HTTP.Path, e.HTTP.Status)
		o.requests[key]++
		o.bodies[key] += e.Request.Body + e.Response.Body
	}
	return o
}

// bytesOfBodies are those of all requests with this role, method, path and status until now, and of their responses.
func (o *overheard) bytesOfBodies(key string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bodies[key]
}

// take returns what was told since the last call.
func (o *overheard) take() (requests map[string]int, carried, pieces int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	requests, carried, pieces = o.requests, o.carried, o.pieces
	o.requests, o.carried, o.pieces = map[string]int{}, 0, 0
	return requests, carried, pieces
}

// overhearEachWay runs a test with an observer whose exchanges it hears.
func overhearEachWay(t *testing.T, test func(t *testing.T, w *watching, o *overheard)) {
	t.Helper()
	runEachWay(t, func(t *testing.T, by *way) {
		c := requestConfig()
		o := overhear(&c)
		test(t, watch(t, c, by.change), o)
	})
}

// wait waits until what was wanted was told, and returns it.
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
				return w.missed() > 0 // a program that the kernel left out has told nothing
			}
		}
		return true
	}, 20*time.Second, lookInterval, "want %v, got %v", want, got)
	if w.missed() == 0 {
		require.Equal(t, want, got)
	}
}

const fine = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// TestMethodsThatFewUse holds that the first request of a connection is told with its method and its path, whatever method it has.
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

// TestFirstBytesByThemselves holds that a connection's first request is told whole where its first bytes are read, or written, by themselves, and
// so is its response; and that what goes on as no request is not told.
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

// TestTextThatIsNotHTTP holds that other protocols whose lines look like requests are not taken for HTTP.
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
		requests, carried, pieces := o.take()
		require.Empty(t, requests)
		require.Zero(t, pieces, "%d bytes have left the kernel", carried)
	})
}

// proxyHeader2 is a header of version 2 of the PROXY protocol, with a list of so many bytes behind the addresses.
func proxyHeader2(more int) string {
	header := []byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02\x9c\x40\x00\x50")
	binary.BigEndian.PutUint16(header[14:], uint16(12+more))
	return string(header) + strings.Repeat("\x04", more)
}

// TestProxyProtocol holds that what is spoken behind a header of the PROXY protocol is known, in one piece with it or not.
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

// TestWhatIsNoHTTPAnyMoreStaysInTheKernel holds that the programs tell no more of a connection once it has left HTTP/1 for something that
// nobody knows, that they look at what comes then, and that an upgrade to HTTP/2 is followed.
func TestWhatIsNoHTTPAnyMoreStaysInTheKernel(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const most = 40 // pieces until it is known, and those that were on their way
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
			for range 4 { // looks, in any of which it may become known
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
			_, carried, pieces := o.take()
			require.Zero(t, carried, name)
			require.LessOrEqual(t, pieces, most, name)
			// What comes then is looked at again.
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

// TestLookupsWithSeveralQuestions holds that a lookup is known by its header also where it asks several questions, over UDP and TCP.
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
