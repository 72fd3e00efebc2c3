// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"context"
	"encoding/binary"
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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// nameServer answers lookups by what is in the name, and counts those that came by name, over UDP and TCP together.
type nameServer struct {
	address string
	delay   time.Duration

	mu    sync.Mutex
	asked map[string]uint64
}

// serveNames has a server listen on a port of no meaning.
func serveNames(t *testing.T, delay time.Duration) *nameServer {
	t.Helper()
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &nameServer{address: datagrams.LocalAddr().String(), delay: delay, asked: map[string]uint64{}}
	streams, err := net.Listen("tcp", s.address)
	require.NoError(t, err)
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

// answer answers a lookup: what is absent is not there, what is long comes over TCP alone.
func (s *nameServer) answer(query []byte, datagram bool) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil
	}
	name := strings.TrimSuffix(m.Questions[0].Name.String(), ".")
	s.mu.Lock()
	s.asked[name]++
	s.mu.Unlock()
	m.Response, m.Additionals = true, nil
	switch {
	case strings.HasPrefix(name, "slow"):
		time.Sleep(s.delay)
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

// readMessage reads one over TCP as resolvers do: the length first.
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
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name + "."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	packed, err := query.Pack()
	require.NoError(t, err)
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
	require.Equal(t, query.ID, m.ID)
	return m.RCode
}

// lookups are the points of this process, by name and error.
func (w *watching) lookups() map[string]*model.Histogram {
	all := map[string]*model.Histogram{}
	for _, m := range w.last.Metrics {
		if m.Process == nil || m.Process.ID.PID != uint32(os.Getpid()) {
			continue
		}
		for _, metric := range m.Metrics {
			for _, p := range metric.Points {
				if metric.Name == "dns.lookup.duration" {
					all[strings.Join(attributes(p), " ")] = p.Histogram
				}
			}
		}
	}
	return all
}

// TestLookupsAreTold holds that lookups of Go's resolver and of a client like dig are told as often as the server was asked,
// over UDP and TCP, on a port of no meaning, with the code of their answers and durations as the client has measured them.
func TestLookupsAreTold(t *testing.T) {
	guest.TakesLong(t)
	const delay = 150 * time.Millisecond
	runEachWay(t, func(t *testing.T, by *way) {
		w := watch(t, requestConfig(), by.change)
		server := serveNames(t, delay)
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
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
		took := time.Since(began)
		for _, network := range []string{"udp", "tcp"} {
			require.Equal(t, dnsmessage.RCodeSuccess, server.ask(t, network, "dig.example"))
			require.Equal(t, dnsmessage.RCodeNameError, server.ask(t, network, "absent.example"))
		}
		w.settle()
		if w.missed() > 0 {
			return // some of the pieces were not seen
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

// TestOtherProtocolsAreLeftOut holds that only the protocols that are asked for are told.
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
