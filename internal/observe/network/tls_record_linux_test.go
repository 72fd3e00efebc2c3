// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/observetest"
)

// likeTLS returns messages of other protocols that begin as TLS records do, since their lengths come first.
func likeTLS() (messages [][]byte) {
	for length := 0x0314; length <= 0x0317; length++ {
		for _, command := range []byte{0x03, 0x16, 0x17} { // COM_QUERY, COM_STMT_PREPARE and COM_STMT_EXECUTE of MySQL
			packet := binary.LittleEndian.AppendUint32(nil, uint32(length)) // and a sequence number of 0
			packet = append(packet, command)
			if command == 0x17 {
				packet = append(packet, 1, 0, 0, 0, 0, 1, 0, 0, 0)
			}
			text := bytes.Repeat([]byte("SELECT * FROM orders WHERE id = 1 OR "), 30)
			messages = append(messages, append(packet, text[:4+length-len(packet)]...))
		}
		for _, id := range []uint32{2, 4, 17, 48, 255} {
			message := binary.LittleEndian.AppendUint32(nil, uint32(length))
			message = binary.LittleEndian.AppendUint32(message, id)
			message = append(message, 0, 0, 0, 0, 0xdd, 0x07, 0, 0) // OP_MSG of MongoDB
			messages = append(messages, append(message, make([]byte, length-len(message))...))
		}
	}
	return messages
}

// TestOnlyTLSIsTLS checks that messages of other protocols that begin as a record does are not taken for TLS, however they are read and
// written, and that TLS is.
func TestOnlyTLSIsTLS(t *testing.T) {
	const headBytes = 16 // as MongoDB reads
	guest.SameOnEveryKernel(t)
	runEachWay(t, func(t *testing.T, by *way) {
		w := watch(t, requestConfig(), by.change)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, listener.Close()) }()
		for i, message := range likeTLS() {
			client, err := net.Dial("tcp", listener.Addr().String())
			require.NoError(t, err)
			server, err := listener.Accept()
			require.NoError(t, err)
			if i%2 == 0 {
				_, err = client.Write(message)
			} else {
				_, err = (&net.Buffers{message[:3], message[3:20], message[20:]}).WriteTo(client)
			}
			require.NoError(t, err)
			got := make([]byte, len(message))
			_, err = io.ReadFull(server, got[:headBytes])
			require.NoError(t, err)
			_, err = io.ReadFull(server, got[headBytes:])
			require.NoError(t, err)
			require.NoError(t, client.Close())
			require.NoError(t, server.Close())
		}
		w.settle()
		require.Positive(t, w.sum(self{}, "ebpf.network.io", "network.io.direction=transmit"))
		require.Empty(t, w.points(self{}, "ebpf.network.io", "ebpf.tls=true"))
		require.Zero(t, w.opaque("tls_opaque"))

		getThroughTLS(t)
		require.Eventually(t, func() bool { return w.opaque("tls_opaque") == 2 }, time.Minute, 10*time.Millisecond, "both ends of it")
		w.settle()
		require.NotEmpty(t, w.points(self{}, "ebpf.network.io", "ebpf.tls=true"))
	})
}

// getThroughTLS sends a request to a server of this process, over a connection of its own.
func getThroughTLS(t *testing.T) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	client := server.Client()
	response, err := client.Get(server.URL)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	client.CloseIdleConnections()
	server.Close()
}

// TestOpaqueTLSOutOfScope checks that connections are not counted of a process that turns out to be out of scope after they have ended.
func TestOpaqueTLSOutOfScope(t *testing.T) {
	guest.SameOnEveryKernel(t)
	runEachWay(t, func(t *testing.T, by *way) {
		w := watch(t, requestConfig(), by.change)
		host := w.table.host.(*observetest.Host)
		host.Everybody = false
		getThroughTLS(t)
		require.Eventually(t, func() bool { return w.ownOpaque() == 2 }, time.Minute, 10*time.Millisecond, "both ends of it")
		w.settle()
		require.Zero(t, w.ownOpaque())
		require.Zero(t, w.capture.opaque.of(""))
		host.Everybody = true
		getThroughTLS(t)
		require.Eventually(t, func() bool { return w.opaque("tls_opaque") >= 2 }, time.Minute, 10*time.Millisecond, "others on the host may have some, too")
	})
}

// opaque returns how many connections with TLS of which nothing was captured are counted for a reason.
func (w *watching) opaque(reason string) uint64 {
	w.nameRequests()
	return w.loss(reason)
}

// ownOpaque returns how many of these this process has had that still wait for the decision whether it is in scope.
func (w *watching) ownOpaque() (n uint64) {
	w.capture.opaque.mu.Lock()
	defer w.capture.opaque.mu.Unlock()
	for key, times := range w.capture.opaque.seen {
		if key.subject.PID == uint32(os.Getpid()) {
			n += times
		}
	}
	return n
}

// TestWhatIsPassedOnIsOpaque checks that connections with TLS that a program only passes on are counted as opaque, also if the thread that
// does so has called a library that is attached to.
func TestWhatIsPassedOnIsOpaque(t *testing.T) {
	const connections = 3
	program := testbin.Go(t, "testdata/gotls")
	runEachWay(t, func(t *testing.T, way *way) {
		cert, key := certificate(t)
		server := speak(t, program, "server", cert, key)
		passing := speak(t, program, "passing", server.line(), "1")
		client := speak(t, program, "client", passing.line(), "2")
		require.Equal(t, "ready", client.line())
		config, scope := tlsConfig(t)
		w := watch(t, config, way.change)
		w.attachedTo(scope, 3*goFunctions, server, passing, client)
		require.Equal(t, 2*connections, client.ask("/1", "/2", "/3"))
		if w.handed(); w.leavesOut() {
			return // it may be that the end was not captured
		}
		require.Eventually(t, func() bool { return w.opaque("tls_opaque_go") == 2*connections }, time.Minute, 10*time.Millisecond, "%v", w.Losses())
		w.settle()
		require.EqualValues(t, 2*connections, w.opaque("tls_opaque_go"), "what is looked into is not opaque")
		require.Zero(t, w.opaque("tls_opaque"))
		w.nearly(map[string]uint64{"200": 4 * connections}, w.tlsRequests(server, "server"), "server")
	})
}
