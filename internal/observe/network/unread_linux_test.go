// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// unreadFor is how long a client waits until it reads what arrived with the end of its connection.
const unreadFor = 5 * time.Millisecond

// ending is a connection that ends, for the kernel, before its client has read everything.
type ending struct {
	t              *testing.T
	client, server *net.TCPConn
}

func newEnding(t *testing.T, request string) *ending {
	t.Helper()
	c := newTalk(t)
	c.asks(request)
	return &ending{t, c.client.(*net.TCPConn), c.server.(*net.TCPConn)}
}

// half makes the client shut down its sending direction, which the server reads.
func (e *ending) half() {
	e.t.Helper()
	require.NoError(e.t, e.client.CloseWrite())
	nothingFollows(e.t, e.server)
}

// answers makes the server answer and close.
func (e *ending) answers(text string) {
	e.t.Helper()
	_, err := io.WriteString(e.server, text)
	require.NoError(e.t, err)
	require.NoError(e.t, e.server.Close())
}

// reads makes the client read everything, and end with an error or not.
func (e *ending) reads(want string, reset bool) {
	e.t.Helper()
	got, err := io.ReadAll(e.client)
	require.Equal(e.t, want, string(got))
	if reset {
		require.ErrorIs(e.t, err, syscall.ECONNRESET)
	} else {
		require.NoError(e.t, err)
	}
}

// unread returns how many bytes wait to be read.
func unread(t *testing.T, conn *net.TCPConn) (n int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) { n, failed = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }))
	require.NoError(t, failed)
	return n
}

// endings are ways in which a connection ends; each returns the status that its client has read, and its server written.
var endings = map[string]func(t *testing.T, request string) (client, server int){
	// Both have ended when the response is read.
	"half closed": func(t *testing.T, request string) (client, server int) {
		e := newEnding(t, request)
		e.half()
		e.answers(fine)
		time.Sleep(unreadFor)
		e.reads(fine, false)
		require.NoError(t, e.client.Close())
		return 200, 200
	},
	// Both have ended when the response, which the end of the connection ends, is read in several calls.
	"half closed, in segments": func(t *testing.T, request string) (client, server int) {
		e := newEnding(t, request)
		e.half()
		const response = "HTTP/1.0 203 Other\r\nServer: old\r\n\r\nuntil the end"
		e.answers(response)
		time.Sleep(unreadFor)
		for i := range response {
			_, err := io.ReadFull(e.client, make([]byte, 1))
			require.NoError(t, err, i)
		}
		e.reads("", false)
		require.NoError(t, e.client.Close())
		return 203, 203
	},
	// The client waits in its call: the end comes while that goes on.
	"half closed, waiting": func(t *testing.T, request string) (client, server int) {
		e := newEnding(t, request)
		e.half()
		file, err := e.client.File()
		require.NoError(t, err)
		require.NoError(t, e.client.Close())
		fd := int(file.Fd())
		require.NoError(t, syscall.SetNonblock(fd, false))
		read := make(chan string)
		go func() {
			var all []byte
			for buffer := make([]byte, 4096); ; {
				n, err := syscall.Read(fd, buffer)
				if n <= 0 || err != nil {
					break
				}
				all = append(all, buffer[:n]...)
			}
			read <- string(all)
		}()
		time.Sleep(time.Millisecond)
		e.answers(fine)
		require.Equal(t, fine, <-read)
		require.NoError(t, file.Close())
		return 200, 200
	},
	// The server has not read all of a request when it closes: the client is reset.
	"refused": func(t *testing.T, request string) (client, server int) {
		const more = 1000
		e := newEnding(t, request)
		_, err := io.WriteString(e.client, strings.Repeat("x", more))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return unread(t, e.server) == more }, time.Minute, time.Millisecond)
		const response = "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
		e.answers(response)
		time.Sleep(unreadFor)
		e.reads(response, true)
		require.NoError(t, e.client.Close())
		return 413, 413
	},
	// The server ends without a FIN.
	"reset": func(t *testing.T, request string) (client, server int) {
		e := newEnding(t, request)
		require.NoError(t, e.server.SetLinger(0))
		e.answers(fine)
		time.Sleep(unreadFor)
		e.reads(fine, true)
		require.NoError(t, e.client.Close())
		return 200, 200
	},
	// The client closes without having read the response.
	"not read": func(t *testing.T, request string) (client, server int) {
		e := newEnding(t, request)
		e.half()
		e.answers(fine)
		time.Sleep(unreadFor)
		require.NoError(t, e.client.Close())
		return 0, 200
	},
	// The client resets, and the server does not answer.
	"given up": func(t *testing.T, request string) (client, server int) {
		e := newEnding(t, request)
		require.NoError(t, e.client.SetLinger(0))
		require.NoError(t, e.client.Close())
		_, err := io.ReadAll(e.server)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.NoError(t, e.server.Close())
		return 0, 0
	},
	// The server writes to a client that has closed, and closes.
	"too late": func(t *testing.T, request string) (client, server int) {
		e := newEnding(t, request)
		require.NoError(t, e.client.SetLinger(0))
		require.NoError(t, e.client.Close())
		require.Eventually(t, func() bool { return infoOf(t, e.server).State == closed }, time.Minute, time.Millisecond)
		_, err := io.WriteString(e.server, fine)
		require.Error(t, err)
		require.NoError(t, e.server.Close())
		return 0, 0
	},
}

// TestResponsesReadAfterTheEnd checks that a response is reported with its request if the kernel has ended the connection before its client
// has read it; that a client that has not read it is reported without one; and that nothing of these connections is left.
func TestResponsesReadAfterTheEnd(t *testing.T) {
	guest.TakesLong(t)
	const times = 8
	overhearAlone(t, func(t *testing.T, w *watching, o *overheard) {
		want := map[string]int{}
		for name, end := range endings {
			path := "/" + strings.NewReplacer(" ", "-", ",", "").Replace(name)
			for range times {
				client, server := end(t, "POST "+path+" HTTP/1.1\r\nHost: shop.example\r\nContent-Length: "+map[bool]string{true: "100000", false: "0"}[name == "refused"]+"\r\n\r\n")
				want[fmt.Sprintf("client POST %s %d", path, client)]++
				want[fmt.Sprintf("server POST %s %d", path, server)]++
			}
		}
		o.wait(t, w, want)
		w.leavesNothing()
	})
}

// leavesNothing checks that no connection of this process is tracked any more; it stops the observer.
func (w *watching) leavesNothing() {
	w.t.Helper()
	require.NoError(w.t, w.Stop())
	if w.missed() > 0 {
		return // an end was not captured
	}
	for id, s := range w.capture.streams {
		require.NotEqual(w.t, uint32(os.Getpid()), s.connection.Subject.PID, "%+v", id)
	}
}

// TestSocketsThatConnectAnew checks that what a socket carries ends when it connects to another peer: its requests are reported with their
// own responses, also if one was not read.
func TestSocketsThatConnectAnew(t *testing.T) {
	overhearAlone(t, func(t *testing.T, w *watching, o *overheard) {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		want := map[string]int{}
		const times, unread = 4, 2
		for i := range times {
			port := listener.Addr().(*net.TCPAddr).Port
			require.NoError(t, syscall.Connect(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}))
			server, err := listener.Accept()
			require.NoError(t, err)
			path := fmt.Sprintf("/anew/%d", i)
			request := "GET " + path + " HTTP/1.1\r\nHost: shop.example\r\n\r\n"
			_, err = syscall.Write(fd, []byte(request))
			require.NoError(t, err)
			_, err = io.ReadFull(server, make([]byte, len(request)))
			require.NoError(t, err)
			require.NoError(t, syscall.Shutdown(fd, syscall.SHUT_WR))
			nothingFollows(t, server)
			_, err = io.WriteString(server, fine)
			require.NoError(t, err)
			require.NoError(t, server.Close())
			time.Sleep(unreadFor)
			status := 0
			if i != unread {
				n, err := syscall.Read(fd, make([]byte, 4096))
				require.NoError(t, err)
				require.Equal(t, len(fine), n)
				status = 200
			}
			want[fmt.Sprintf("client GET %s %d", path, status)], want["server GET "+path+" 200"] = 1, 1
			disconnect(t, fd)
		}
		require.NoError(t, syscall.Close(fd))
		o.wait(t, w, want)
		w.leavesNothing()
	})
}

// disconnect makes a TCP socket drop its connection, after which it may connect again.
func disconnect(t *testing.T, fd int) {
	t.Helper()
	to := syscall.RawSockaddr{Family: syscall.AF_UNSPEC}
	_, _, errno := syscall.Syscall(syscall.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&to)), unsafe.Sizeof(to))
	require.Zero(t, errno)
}

// TestResponsesReadAfterTheEndThroughTLS checks, of what a TLS library decrypts, that a response is reported with its request if the kernel
// has ended the connection before its client has read it.
func TestResponsesReadAfterTheEndThroughTLS(t *testing.T) {
	guest.TakesLong(t)
	const times = 5
	runEachWay(t, func(t *testing.T, by *way) {
		cert, key := certificate(t)
		both := speak(t, "python3", "testdata/unread.py", cert, key)
		require.Equal(t, "ready", both.line())
		config, scope := tlsConfig(t)
		w := watch(t, config, by.change)
		w.attachedTo(scope, openSSLFunctions, both)
		require.Equal(t, 2*times, both.ask("half", "reset", fmt.Sprint(times)))
		w.settle()
		for _, side := range []string{"server", "client"} {
			w.nearly(map[string]uint64{"200": times, "413": times}, w.tlsRequests(both, side), side)
		}
		require.NoError(t, w.Stop())
		if w.leavesOut() {
			return
		}
		require.False(t, slices.ContainsFunc(slices.Collect(maps.Values(w.capture.streams)), func(s *stream) bool { return s.connection.Subject.PID == uint32(both.PID()) }))
	})
}
