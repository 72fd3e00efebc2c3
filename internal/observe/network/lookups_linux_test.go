// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// nameServer answers lookups by what is in the name, and counts them by name, over UDP and TCP together.
type nameServer struct {
	address string
	delay   time.Duration

	mu    sync.Mutex
	asked map[string]uint64
	hold  chan struct{} // if not nil, slow answers wait until it is closed
}

// listenBothWays listens for datagrams and connections on one port, which is free for both.
func listenBothWays(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 10 {
		datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
		require.NoError(t, err)
		streams, err := net.Listen("tcp", datagrams.LocalAddr().String())
		if err == nil {
			return datagrams, streams
		}
		require.NoError(t, datagrams.Close())
		require.ErrorIs(t, err, unix.EADDRINUSE)
	}
	require.Fail(t, "no port of ten was free for connections, too")
	return nil, nil
}

// serveNames starts a server on a port without a meaning.
func serveNames(t *testing.T, delay time.Duration) *nameServer {
	t.Helper()
	datagrams, streams := listenBothWays(t)
	s := &nameServer{address: datagrams.LocalAddr().String(), delay: delay, asked: map[string]uint64{}}
	var ended sync.WaitGroup
	ended.Go(func() {
		room := make([]byte, 2048)
		for {
			n, from, err := datagrams.ReadFrom(room)
			if err != nil {
				return
			}
			_, _ = datagrams.WriteTo(s.answer(room[:n], true), from)
		}
	})
	ended.Go(func() {
		for {
			conn, err := streams.Accept()
			if err != nil {
				return
			}
			message, err := readMessage(conn)
			if err == nil {
				_, _ = conn.Write(prefixed(s.answer(message, false)))
			}
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_, _ = datagrams.Close(), streams.Close()
		ended.Wait()
	})
	return s
}

// answer answers a lookup: absent names do not exist, long answers come only over TCP.
func (s *nameServer) answer(query []byte, datagram bool) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil
	}
	name := strings.TrimSuffix(m.Questions[0].Name.String(), ".")
	s.mu.Lock()
	s.asked[name]++
	hold := s.hold
	s.mu.Unlock()
	m.Response, m.Additionals = true, nil
	switch {
	case strings.HasPrefix(name, "slow"):
		time.Sleep(s.delay)
		if hold != nil {
			<-hold
		}
	case strings.HasPrefix(name, "absent"):
		m.RCode = dnsmessage.RCodeNameError
	case strings.HasPrefix(name, "long"):
		m.Truncated = datagram
	}
	if m.RCode == dnsmessage.RCodeSuccess && !m.Truncated {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 60},
			Body:   &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}},
		}}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// readMessage reads one message over TCP as resolvers do: the length first.
func readMessage(conn net.Conn) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(conn, message)
	return message, err
}

func prefixed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)
}

// ask looks a name up as dig does, over one connection.
func (s *nameServer) ask(t *testing.T, network, name string) dnsmessage.RCode {
	t.Helper()
	conn, err := net.Dial(network, s.address)
	require.NoError(t, err)
	defer conn.Close()
	const id = 4711
	packed := query(t, id, name)
	var answer []byte
	if network == "tcp" {
		_, err = conn.Write(prefixed(packed))
		require.NoError(t, err)
		answer, err = readMessage(conn)
	} else {
		_, err = conn.Write(packed)
		require.NoError(t, err)
		room := make([]byte, 2048)
		var n int
		n, err = conn.Read(room)
		answer = room[:n]
	}
	require.NoError(t, err)
	var m dnsmessage.Message
	require.NoError(t, m.Unpack(answer))
	require.EqualValues(t, id, m.ID)
	return m.RCode
}

// lookups returns the points of this process, by name and error.
func (w *watching) lookups() map[string]*model.Histogram {
	all := map[string]*model.Histogram{}
	for _, m := range w.last.Metrics {
		if m.Process == nil || m.Process.ID.PID != uint32(os.Getpid()) {
			continue
		}
		for _, metric := range m.Metrics {
			for _, p := range metric.Points {
				if metric.Name == "dns.lookup.duration" {
					key := strings.Join(slices.DeleteFunc(attributes(p), isOfPeer), " ")
					if known := all[key]; known != nil { // of another peer
						p.Histogram.Count += known.Count
					}
					all[key] = p.Histogram
				}
			}
		}
	}
	return all
}

// isOfPeer reports whether an attribute is one of a peer.
func isOfPeer(attribute string) bool {
	return slices.ContainsFunc([]string{"ebpf.role=", "ebpf.peer.", "network."}, func(prefix string) bool { return strings.HasPrefix(attribute, prefix) })
}

// TestLookups checks that lookups of Go's resolver and of a client like dig are reported as often as the server was asked, over UDP and TCP,
// on a port without a meaning, with the code of their answers and durations as the client has measured them.
func TestLookups(t *testing.T) {
	guest.TakesLong(t)
	const delay = 150 * time.Millisecond
	runEachWay(t, func(t *testing.T, by *way) {
		w := watch(t, requestConfig(), by.change)
		server := serveNames(t, delay)
		const dials = 5 + 1 + 2 // without those of a resolver that asks once more, after seconds
		var dialled atomic.Int64
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			dialled.Add(1)
			return (&net.Dialer{}).DialContext(ctx, network, server.address)
		}}
		for range 5 {
			found, err := resolver.LookupNetIP(t.Context(), "ip4", "there.example.")
			require.NoError(t, err)
			require.Equal(t, "192.0.2.1", found[0].String())
		}
		_, err := resolver.LookupNetIP(t.Context(), "ip4", "absent.example.")
		require.Error(t, err)
		_, err = resolver.LookupNetIP(t.Context(), "ip4", "long.example.")
		require.NoError(t, err)
		began := time.Now()
		require.Equal(t, dnsmessage.RCodeSuccess, server.ask(t, "udp", "slow.example"))
		allAsleep() // the server has sent its answer before that returns
		took := time.Since(began)
		for _, network := range []string{"udp", "tcp"} {
			require.Equal(t, dnsmessage.RCodeSuccess, server.ask(t, network, "dig.example"))
			require.Equal(t, dnsmessage.RCodeNameError, server.ask(t, network, "absent.example"))
		}
		w.settle()
		if w.missed() > 0 || dialled.Load() > dials {
			return // some of the segments were not captured, or the host was so slow that the resolver has asked again
		}
		want := map[string]uint64{}
		for name, n := range server.asked {
			key := "dns.question.name=" + name
			if strings.HasPrefix(name, "absent") {
				key += " error.type=NXDOMAIN"
			}
			want[key] = n
		}
		require.EqualValues(t, 2, want["dns.question.name=long.example"], "over UDP, then over TCP")
		got := w.lookups()
		require.Equal(t, want, counts(got))
		slow := got["dns.question.name=slow.example"]
		require.GreaterOrEqual(t, slow.Min, delay.Seconds())
		require.LessOrEqual(t, slow.Max, took.Seconds())
		require.Zero(t, w.loss("buffer_full"))
	})
}

// unconnectedWays are the calls by which a query is sent and its answer received on an unconnected socket.
var unconnectedWays = map[string]struct {
	send    func(*net.UDPConn, []byte, *net.UDPAddr) error
	receive func(*net.UDPConn, []byte) (int, error)
}{
	"to": {
		func(c *net.UDPConn, query []byte, to *net.UDPAddr) error {
			_, err := c.WriteToUDP(query, to)
			return err
		},
		func(c *net.UDPConn, room []byte) (int, error) { n, _, err := c.ReadFromUDP(room); return n, err },
	},
	"msg": {
		func(c *net.UDPConn, query []byte, to *net.UDPAddr) error {
			_, _, err := c.WriteMsgUDP(query, nil, to)
			return err
		},
		func(c *net.UDPConn, room []byte) (int, error) {
			n, _, _, _, err := c.ReadMsgUDP(room, nil)
			return n, err
		},
	},
	"mmsg": {
		func(c *net.UDPConn, query []byte, to *net.UDPAddr) error {
			_, err := ipv4.NewPacketConn(c).WriteBatch([]ipv4.Message{{Buffers: [][]byte{query[:5], query[5:]}, Addr: to}}, 0)
			return err
		},
		func(c *net.UDPConn, room []byte) (int, error) {
			batch := []ipv4.Message{{Buffers: [][]byte{room[:16], room[16:]}}}
			_, err := ipv4.NewPacketConn(c).ReadBatch(batch, 0)
			return batch[0].N, err
		},
	},
	"without": {
		func(c *net.UDPConn, query []byte, to *net.UDPAddr) error {
			_, err := c.WriteToUDP(query, to)
			return err
		},
		func(c *net.UDPConn, room []byte) (int, error) { return c.Read(room) },
	},
}

// query packs a lookup.
func query(t *testing.T, id uint16, name string) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name + "."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packed, err := m.Pack()
	require.NoError(t, err)
	return packed
}

// unconnected returns a socket without a peer, and the addresses of servers.
func unconnected(t *testing.T, servers ...*nameServer) (*net.UDPConn, []*net.UDPAddr) {
	t.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	require.NoError(t, socket.SetReadDeadline(time.Now().Add(time.Minute)))
	list := make([]*net.UDPAddr, len(servers))
	for i, s := range servers {
		list[i], err = net.ResolveUDPAddr("udp4", s.address)
		require.NoError(t, err)
	}
	return socket, list
}

// TestLookupsOnUnconnectedSockets checks that lookups on unconnected sockets are reported as those on others are, whichever calls make them:
// each once, by the client and not by the server, matched by their ids if several are under way, and in logs with the server that was asked.
func TestLookupsOnUnconnectedSockets(t *testing.T) {
	guest.TakesLong(t)
	const delay = 100 * time.Millisecond
	runEachWay(t, func(t *testing.T, by *way) {
		config := requestConfig()
		config.Journal = requests.JournalConfig{Which: requests.AllRequests, Slow: time.Hour, Bytes: 1 << 20}
		w := watch(t, config, by.change)
		late, server := serveNames(t, delay), serveNames(t, 0)
		room, want := make([]byte, 2048), map[string]uint64{}
		for calls, way := range unconnectedWays {
			socket, to := unconnected(t, server)
			for i := range uint16(3) {
				require.NoError(t, way.send(socket, query(t, i, calls+".example"), to[0]))
				n, err := way.receive(socket, room)
				require.NoError(t, err)
				require.EqualValues(t, i, binary.BigEndian.Uint16(room))
				require.Greater(t, n, 12)
			}
			require.NoError(t, socket.Close())
			want["dns.question.name="+calls+".example"] = 3
		}
		socket, to := unconnected(t, late, server)
		late.mu.Lock()
		late.hold = make(chan struct{})
		late.mu.Unlock()
		began := time.Now()
		for i, name := range []string{"slow.example", "absent.example"} {
			require.NoError(t, unconnectedWays["to"].send(socket, query(t, uint16(i), name), to[i]))
		}
		for i := range 2 {
			_, err := unconnectedWays["to"].receive(socket, room)
			require.NoError(t, err)
			require.EqualValues(t, 1-i, binary.BigEndian.Uint16(room), "the later query is answered first")
			if i == 0 {
				close(late.hold)
			}
		}
		took := time.Since(began)
		require.NoError(t, socket.Close())
		want["dns.question.name=slow.example"], want["dns.question.name=absent.example error.type=NXDOMAIN"] = 1, 1
		w.settle()
		if w.missed() > 0 {
			return // some of the segments were not captured
		}
		got := w.lookups()
		require.Equal(t, want, counts(got))
		slow := got["dns.question.name=slow.example"]
		require.GreaterOrEqual(t, slow.Min, delay.Seconds())
		require.LessOrEqual(t, slow.Max, took.Seconds())

		events := map[string]uint64{}
		logs, attributes := logsOfSelf(t, w.Logs())
		for i, of := range attributes {
			require.Equal(t, model.Info, logs[i].Severity)
			require.Equal(t, "A", of["ebpf.dns.question.type"])
			key := fmt.Sprint("dns.question.name=", of["dns.question.name"])
			if of["error.type"] != nil {
				key += fmt.Sprint(" error.type=", of["error.type"])
			}
			events[key]++
			if of["dns.question.name"] == "slow.example" {
				require.Equal(t, late.address, net.JoinHostPort(of["server.address"].(string), fmt.Sprint(of["server.port"])))
				require.Equal(t, "udp", of["network.transport"])
			}
		}
		require.Equal(t, want, events)
	})
}

// TestOtherProtocolsAreLeftOut checks that only the configured protocols are reported.
func TestOtherProtocolsAreLeftOut(t *testing.T) {
	guest.SameOnEveryKernel(t)
	runEachWay(t, func(t *testing.T, by *way) {
		config := requestConfig()
		config.Protocols = []Protocol{HTTP}
		w := watch(t, config, by.change)
		server := serveNames(t, 0)
		require.Equal(t, dnsmessage.RCodeSuccess, server.ask(t, "udp", "there.example"))
		w.settle()
		require.Empty(t, w.lookups())
	})
}

// silent is a name server that answers nothing by itself.
func silent(t *testing.T) *net.UDPConn {
	t.Helper()
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	require.NoError(t, server.SetReadDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() { _ = server.Close() })
	return server
}

// TestLookupsWithoutAProperAnswer checks, on connected and unconnected sockets, that a lookup without an answer is reported as one, that an
// answer that is only a header is matched by its id, and that a multicast DNS query is no lookup, whichever end has its port.
func TestLookupsWithoutAProperAnswer(t *testing.T) {
	guest.TakesLong(t)
	const multicast = 5353
	runEachWay(t, func(t *testing.T, by *way) {
		config := requestConfig()
		config.quiet = 100 * time.Millisecond
		config.patience.Store(int64(time.Hour)) // until all is said: no lookup is given up because its answer comes late
		config.Protocols = []Protocol{DNS}
		config.Journal = requests.JournalConfig{Which: requests.AllRequests, Slow: time.Hour, Bytes: 1 << 20}
		w := watch(t, config, by.change)
		server := silent(t)
		to := server.LocalAddr().(*net.UDPAddr)
		room, alone := make([]byte, 2048), []byte{0, 0, 0x81, 0x81, 0, 0, 0, 0, 0, 0, 0, 0}
		connected, err := net.DialUDP("udp4", nil, to)
		require.NoError(t, err)
		socket, _ := unconnected(t)
		for i, ask := range []func(query []byte) error{
			func(query []byte) error { _, err := connected.Write(query); return err },
			func(query []byte) error { _, err := socket.WriteToUDP(query, to); return err },
		} {
			for id, name := range []string{"silent.example", "alone.example"} {
				require.NoError(t, ask(query(t, uint16(4711+id), name)))
				_, from, err := server.ReadFromUDP(room)
				require.NoError(t, err)
				if name == "alone.example" {
					binary.BigEndian.PutUint16(alone, uint16(4711+id))
					_, err = server.WriteToUDP(alone, from)
					require.NoError(t, err)
					_, err = []*net.UDPConn{connected, socket}[i].Read(room)
					require.NoError(t, err)
				}
			}
		}
		_, err = socket.WriteToUDP(query(t, 0, "to.local"), &net.UDPAddr{IP: to.IP, Port: multicast})
		require.NoError(t, err)
		group, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: to.IP, Port: multicast})
		require.NoError(t, err)
		_, _ = group.Write(query(t, 0, "connected.local")) // it may have the error already that no process listens there
		own, err := net.ListenUDP("udp4", &net.UDPAddr{IP: to.IP, Port: multicast})
		require.NoError(t, err)
		_, err = own.WriteToUDP(query(t, 0, "from.local"), to)
		require.NoError(t, err)

		allAsleep()
		config.patience.Store(int64(orderPatience))
		want, got := map[string]int{"silent.example no_response": 2, "alone.example FORMERR": 2}, map[string]int{}
		require.Eventually(t, func() bool {
			logs, attributes := logsOfSelf(t, w.Logs())
			for i, of := range attributes {
				require.Equal(t, model.Error, logs[i].Severity)
				got[fmt.Sprint(of["dns.question.name"], " ", of["error.type"])]++
			}
			return len(got) >= len(want) && got["silent.example no_response"] >= 2 || w.missed() > 0
		}, time.Minute, 10*time.Millisecond)
		for _, s := range []*net.UDPConn{connected, socket, group, own} {
			require.NoError(t, s.Close())
		}
		if w.missed() > 0 {
			return // some of the segments were not captured
		}
		require.Equal(t, want, got)
	})
}
