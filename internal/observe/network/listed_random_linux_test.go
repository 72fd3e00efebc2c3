// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// TestListedAndIterated makes random calls on TCP and MPTCP sockets, and checks that an observer that lists sockets counts the same open ones
// by role and state as one that iterates over socket storage. EBPFRECEIVER_LONG makes more of them.
func TestListedAndIterated(t *testing.T) {
	rounds := 60
	switch {
	case os.Getenv("EBPFRECEIVER_LONG") != "":
		rounds = 1000
	case guest.Running():
		rounds = 20 // on emulated CPUs
	}
	iterated := watch(t, config(), nil)
	if iterated.features.listed {
		t.Skip("the kernel refuses the iterator over socket storage")
	}
	listed := watch(t, config(), func(f *features) { f.listed = true })
	n := nettest.New(t)
	n.Sysctl(t, "/proc/sys/net/ipv4/tcp_fin_timeout", "120") // beyond 60 s the kernel keeps closed sockets, not only their addresses
	n.Sysctl(t, "/proc/sys/net/ipv4/tcp_fastopen", "3")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	calls, seen := randomCalls{Rand: rand.New(rand.NewPCG(seed, 0))}, map[string]int64{}
	require.NoError(t, n.Do(func() error {
		defer calls.closeAll()
		for range rounds {
			for range 30 {
				calls.next()
			}
			want, got := iterated.openByState(), listed.openByState()
			for began := time.Now(); !maps.Equal(want, got) && time.Since(began) < time.Minute; { // some states change later
				time.Sleep(10 * time.Millisecond)
				want, got = iterated.openByState(), listed.openByState()
			}
			require.Equal(t, want, got)
			maps.Copy(seen, want)
		}
		return nil
	}))
	require.Contains(t, seen, "ebpf.role=client network.connection.state=established")
	require.Contains(t, seen, "ebpf.role=server network.connection.state=established")
	require.Contains(t, seen, "ebpf.role=server network.connection.state=listen")
}

// openByState returns the open sockets of this process by role and state, of a new report.
func (w *watching) openByState() map[string]int64 {
	w.report()
	open := map[string]int64{}
	for _, point := range w.points(thisProcess{}, "ebpf.network.connections") {
		key := slices.DeleteFunc(attributes(point), func(a string) bool {
			return !strings.HasPrefix(a, "ebpf.role=") && !strings.HasPrefix(a, "network.connection.state=")
		})
		if point.Int != 0 {
			open[strings.Join(key, " ")] += point.Int
		}
	}
	return open
}

type thisProcess struct{}

func (thisProcess) PID() int { return os.Getpid() }

// randomCalls makes calls on random sockets, whose errors are part of what is tested.
type randomCalls struct {
	*rand.Rand
	listeners, connections []randomSocket
}

type randomSocket struct {
	fd int
	at unix.Sockaddr // of a listener
}

const mostRandomSockets = 200

func (c *randomCalls) next() {
	switch choice := c.IntN(14); {
	case len(c.listeners) == 0 || choice == 0:
		c.listen()
	case choice < 5:
		c.connect(c.IntN(len(c.listeners)))
	case choice < 8:
		if fd, _, err := unix.Accept4(c.listeners[c.IntN(len(c.listeners))].fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC); err == nil {
			c.connections = append(c.connections, randomSocket{fd: fd})
		}
	case choice == 8:
		if c.IntN(4) == 0 {
			i := c.IntN(len(c.listeners))
			_ = unix.Close(c.listeners[i].fd)
			c.listeners = slices.Delete(c.listeners, i, i+1)
		}
	case len(c.connections) > 0:
		c.use(c.IntN(len(c.connections)), choice)
	}
	if len(c.connections) > mostRandomSockets {
		c.close(0)
	}
}

func (c *randomCalls) socket(ipv6 bool) (fd int) {
	family, protocol := unix.AF_INET, 0
	if ipv6 {
		family = unix.AF_INET6
	}
	if c.IntN(3) == 0 {
		protocol = unix.IPPROTO_MPTCP
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil { // the kernel has no MPTCP
		fd, _ = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	}
	return fd
}

func (c *randomCalls) listen() {
	var at unix.Sockaddr = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	ipv6 := c.IntN(2) == 0
	if ipv6 {
		at = &unix.SockaddrInet6{Addr: [16]byte{15: 1}}
	}
	fd := c.socket(ipv6)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 10)
	_, _ = unix.Bind(fd, at), unix.Listen(fd, 4)
	if at, err := unix.Getsockname(fd); err == nil {
		c.listeners = append(c.listeners, randomSocket{fd, at})
	}
}

// connect connects to a listener, in one of several ways, or to a port where nothing listens.
func (c *randomCalls) connect(to int) {
	at := c.listeners[to].at
	_, ipv6 := at.(*unix.SockaddrInet6)
	fd := c.socket(ipv6)
	switch c.IntN(8) {
	case 0:
		_ = unix.Sendto(fd, make([]byte, 10), unix.MSG_FASTOPEN, at)
	case 1:
		_ = unix.Connect(fd, &unix.SockaddrInet4{Port: 1, Addr: [4]byte{127, 0, 0, 1}})
	default:
		_ = unix.Connect(fd, at)
	}
	c.connections = append(c.connections, randomSocket{fd: fd})
}

// use makes a call on a connection.
func (c *randomCalls) use(i, call int) {
	fd := c.connections[i].fd
	switch call {
	case 9:
		_, _ = unix.Write(fd, make([]byte, 1+c.IntN(5000)))
	case 10:
		_, _ = unix.Read(fd, make([]byte, 5000))
	case 11:
		_ = unix.Shutdown(fd, c.IntN(3))
	case 12:
		if c.IntN(3) == 0 { // it is reset
			_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
		}
		c.close(i)
	case 13:
		_ = nettest.Disconnect(fd)
		if c.IntN(2) == 0 {
			_ = unix.Connect(fd, c.listeners[c.IntN(len(c.listeners))].at)
		}
	}
}

func (c *randomCalls) close(i int) {
	_ = unix.Close(c.connections[i].fd)
	c.connections = slices.Delete(c.connections, i, i+1)
}

func (c *randomCalls) closeAll() {
	for _, s := range slices.Concat(c.listeners, c.connections) {
		_ = unix.Close(s.fd)
	}
}
