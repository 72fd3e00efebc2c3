// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Path is how a relay treats the packets of one direction.
type Path struct {
	// Delay is how long each packet is held back.
	Delay time.Duration
	// Lose reports whether a packet, from its IP header on, is lost; nil: none is. It is called from one goroutine.
	Lose func(packet []byte) bool
}

// Relay joins two namespaces instead of a cable. Packets are carried by this process, as they are, in order.
type Relay struct {
	carried, lost, dropped atomic.Uint64
}

// Lost is the number of packets that were to be lost.
func (r *Relay) Lost() uint64 { return r.lost.Load() }

// Carried is the number of packets that were handed on.
func (r *Relay) Carried() uint64 { return r.carried.Load() }

// Dropped is the number of packets that exceeded the capacity; a test in which it is not 0 has sent too fast.
func (r *Relay) Dropped() uint64 { return r.dropped.Load() }

// relayCapacity is how many packets a direction of a relay holds.
const relayCapacity = 4096

// held is a packet that waits.
type held struct {
	due    time.Time
	packet []byte
}

// JoinByRelay joins two namespaces by a relay, with one path from a to b and another back.
func JoinByRelay(t testing.TB, a, b *Namespace, there, back Path) (End, End, *Relay) {
	t.Helper()
	endA, endB := ends(t, a, b)
	deviceA, deviceB := endA.tun(t), endB.tun(t)
	r := &Relay{}
	var running sync.WaitGroup
	for _, way := range []struct {
		from, to *os.File
		path     Path
	}{{deviceA, deviceB, there}, {deviceB, deviceA, back}} {
		waiting := make(chan held, relayCapacity)
		running.Go(func() {
			defer close(waiting)
			r.take(way.from, way.path, waiting)
		})
		running.Go(func() { r.give(way.to, waiting) })
	}
	t.Cleanup(func() {
		require.NoError(t, errors.Join(deviceA.Close(), deviceB.Close()))
		running.Wait()
	})
	return endA, endB, r
}

// take reads packets until the device is closed.
func (r *Relay) take(from *os.File, path Path, waiting chan<- held) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if path.Lose != nil && path.Lose(buffer[:n]) {
			r.lost.Add(1)
			continue
		}
		select {
		case waiting <- held{time.Now().Add(path.Delay), append([]byte(nil), buffer[:n]...)}:
		default:
			r.dropped.Add(1)
		}
	}
}

func (r *Relay) give(to *os.File, waiting <-chan held) {
	for h := range waiting {
		time.Sleep(time.Until(h.due))
		if _, err := to.Write(h.packet); err != nil {
			r.dropped.Add(1)
			continue
		}
		r.carried.Add(1)
	}
}

// tun makes the interface of an end by the driver tun, which takes packets whole: no offloading is involved.
func (e End) tun(t testing.TB) *os.File {
	t.Helper()
	var fd int
	err := e.Namespace.Do(func() (err error) {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
			return fmt.Errorf("opening /dev/net/tun: %w", err)
		}
		request, err := unix.NewIfreq(e.Name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	})
	require.NoError(t, err, "making the interface %s", e.Name)
	device := os.NewFile(uintptr(fd), e.Name) // after TUNSETIFF: before it the descriptor cannot be waited for
	e.address(t)
	return device
}

// LoseSegments loses every nth TCP segment over IPv4 that carries data, retransmitted ones included.
func LoseSegments(n int) func([]byte) bool {
	seen := 0
	return func(packet []byte) bool {
		if tcpPayload(packet) == 0 {
			return false
		}
		seen++
		return seen%n == 0
	}
}

// LoseAnswers loses the first n answers to a SYN of TCP over IPv4.
func LoseAnswers(n int) func([]byte) bool {
	const answer = 0x12 // SYN and ACK
	seen := 0
	return func(packet []byte) bool {
		head := tcpHead(packet)
		if head == nil || head[13] != answer {
			return false
		}
		seen++
		return seen <= n
	}
}

// tcpPayload is the length of the data of a TCP segment over IPv4, 0 for all else.
func tcpPayload(packet []byte) int {
	head := tcpHead(packet)
	if head == nil {
		return 0
	}
	return max(0, len(head)-int(head[12]>>4)*4)
}

// tcpHead is a TCP segment over IPv4 from its head on, nil for all else.
func tcpHead(packet []byte) []byte {
	if len(packet) < 40 || packet[0]>>4 != 4 || packet[9] != unix.IPPROTO_TCP {
		return nil
	}
	head := int(packet[0]&15) * 4
	if len(packet) < head+20 {
		return nil
	}
	return packet[head:]
}
