// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// TestUnreachableServersTimeOut checks that a request whose server has become unreachable has timed out, although the socket has the error
// that the network reported last.
func TestUnreachableServersTimeOut(t *testing.T) {
	guest.SameOnEveryKernel(t)
	const patience = 300 // ms
	runEachWay(t, func(t *testing.T, by *way) {
		w := watch(t, requestConfig(), by.change)
		here, there := nettest.New(t), nettest.New(t)
		near, far := nettest.Join(t, here, there)
		var listener net.Listener
		var client net.Conn
		require.NoError(t, there.Do(func() (err error) {
			listener, err = net.Listen("tcp4", net.JoinHostPort(far.IPv4.String(), "0"))
			return err
		}))
		defer listener.Close()
		require.NoError(t, here.Do(func() (err error) {
			client, err = net.Dial("tcp4", listener.Addr().String())
			return err
		}))
		defer client.Close()
		server, err := listener.Accept()
		require.NoError(t, err)
		defer server.Close()
		exchangeBytes(t, client, server, []byte(requestText))
		exchangeBytes(t, server, client, []byte(responseText))
		blocked(t, there, near) // what the client sends is not acknowledged
		_, err = io.WriteString(client, requestText)
		require.NoError(t, err)
		blocked(t, here, far)
		tried := infoOf(t, client).Retransmits
		require.Eventually(t, func() bool { return infoOf(t, client).Retransmits > tried }, time.Minute, time.Millisecond, "it has failed to send again")
		raw, err := client.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, patience)
		}))
		require.NoError(t, err)
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, unix.EHOSTUNREACH)
		require.NoError(t, client.Close())
		w.settle()
		if w.missed() > 0 {
			return
		}
		require.Equal(t, map[string]uint64{"GET 200 ": 1, "GET 0 timeout": 1}, counts(w.endings(self{}, "client")))
	})
}

// blocked drops what is sent from a namespace to the other end of its link.
func blocked(t *testing.T, from *nettest.Namespace, to nettest.End) {
	t.Helper()
	require.NoError(t, from.Do(func() error {
		return netlink.RouteAdd(&netlink.Route{
			Type: unix.RTN_UNREACHABLE, Dst: &net.IPNet{IP: to.IPv4.AsSlice(), Mask: net.CIDRMask(32, 32)},
		})
	}))
}

// exited is a process that has exited.
type exited int

func (e exited) PID() int { return int(e) }

// TestRequestsOfKilledClients checks that a request whose client is killed counts once on either side.
func TestRequestsOfKilledClients(t *testing.T) {
	guest.SameOnEveryKernel(t)
	runEachWay(t, func(t *testing.T, by *way) {
		w := watch(t, requestConfig(), by.change)
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		script := fmt.Sprintf(`exec 3<>/dev/tcp/127.0.0.1/%d; printf 'GET /a HTTP/1.1\r\nHost: h\r\n\r\n' >&3; read -r line <&3`,
			listener.Addr().(*net.TCPAddr).Port)
		client := exec.CommandContext(t.Context(), "bash", "-c", script)
		require.NoError(t, client.Start())
		server, err := listener.Accept()
		require.NoError(t, err)
		require.NoError(t, server.SetDeadline(time.Now().Add(time.Minute)))
		_, err = io.ReadFull(server, make([]byte, len("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")))
		require.NoError(t, err)
		require.NoError(t, client.Process.Kill())
		require.Error(t, client.Wait(), "it was killed")
		_, err = server.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, server.Close())
		w.settle()
		if w.missed() > 0 {
			return
		}
		require.Equal(t, map[string]uint64{"GET 0 client_closed": 1}, counts(w.endings(self{}, "server")))
		require.Equal(t, map[string]uint64{"GET 0 no_response": 1}, counts(w.endings(exited(client.Process.Pid), "client")))
	})
}
