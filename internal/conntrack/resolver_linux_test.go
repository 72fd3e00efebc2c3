// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// of is the flow of a socket.
func of(s *nettest.Socket, protocol uint8) Flow {
	return Flow{Protocol: protocol, Local: s.Local, Remote: s.Remote}
}

// resolver makes a Resolver that is closed with the test.
func resolver(t testing.TB, config Config) *Resolver {
	t.Helper()
	r, err := New(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// place is the place of a program's sockets.
func place(t testing.TB, p *nettest.Program, in *nettest.Namespace) Place {
	return Place{Namespace: in.Inode(t), PIDs: []uint32{uint32(p.PID())}}
}

// translated is a client that reaches a server by a virtual address, and whose own address is translated, too.
func translated(t testing.TB, own bool) (client, server *nettest.Socket, clientPlace, serverPlace Place) {
	rig := nettest.NewRouted(t)
	virtual := netip.MustParseAddrPort("192.0.2.80:80")
	serverProgram, clientProgram := nettest.Start(t, rig.Server), nettest.Start(t, rig.Client)
	listener := serverProgram.Listen("tcp4", netip.AddrPortFrom(rig.ServerEnd.IPv4, 8080))
	rule := nettest.NAT{Protocol: TCP, To: virtual, Server: listener.Local, Client: rig.RouterOut.IPv4}
	where := rig.Router
	if own {
		rule.Client, where = netip.Addr{}, rig.Client
	}
	where.Translate(t, rule)
	client = clientProgram.Dial("tcp4", virtual)
	return client, listener.Accept(), place(t, clientProgram, rig.Client), place(t, serverProgram, rig.Server)
}

// TestInTheClientsNamespace checks that the server behind a client's virtual address is found.
func TestInTheClientsNamespace(t *testing.T) {
	client, server, at, _ := translated(t, true)
	r := resolver(t, Config{})
	for range 2 { // the second time from the cache
		others := r.OtherSides(at, []Flow{of(client, TCP), flow("10.1.1.1:1", "10.1.1.2:2")})
		require.Equal(t, []Flow{of(server, TCP), flow("10.1.1.2:2", "10.1.1.1:1")}, others, "%+v, %v", r.Stats(), r.Degraded())
	}
	require.Equal(t, Stats{Translated: 1, Untranslated: 1, Remembered: 2}, r.Stats())
	require.NoError(t, r.Degraded())
}

// TestInTheHostsNamespace checks that translation on the way, in the host's namespace, is found: a folder stands in for /proc in which
// process 1 is the router.
func TestInTheHostsNamespace(t *testing.T) {
	rig := nettest.NewRouted(t)
	virtual := netip.MustParseAddrPort("192.0.2.80:80")
	programs := map[string]*nettest.Program{"1": nettest.Start(t, rig.Router)}
	serverProgram, clientProgram := nettest.Start(t, rig.Server), nettest.Start(t, rig.Client)
	listener := serverProgram.Listen("tcp4", netip.AddrPortFrom(rig.ServerEnd.IPv4, 8080))
	rig.Router.Translate(t, nettest.NAT{Protocol: TCP, To: virtual, Server: listener.Local, Client: rig.RouterOut.IPv4})
	client := clientProgram.Dial("tcp4", virtual)
	server := listener.Accept()

	root := t.TempDir()
	for _, p := range []*nettest.Program{serverProgram, clientProgram} {
		programs[fmt.Sprint(p.PID())] = p
	}
	for name, p := range programs {
		require.NoError(t, os.Symlink(fmt.Sprintf("/proc/%d", p.PID()), root+"/"+name))
	}
	require.NoError(t, os.Symlink("/proc/sys", root+"/sys"))
	r := resolver(t, Config{ProcRoot: root})

	require.Equal(t, []Flow{of(server, TCP)}, r.OtherSides(place(t, clientProgram, rig.Client), []Flow{of(client, TCP)}),
		"the client learns the server and what that takes it for")
	require.Equal(t, []Flow{of(client, TCP)}, r.OtherSides(place(t, serverProgram, rig.Server), []Flow{of(server, TCP)}),
		"the server learns the client and what that asked for")
	require.Equal(t, Stats{Translated: 2}, r.Stats())
}

// TestDatagramsAndIPv6 checks UDP over IPv6, and IPv4 in IPv6 sockets.
func TestDatagramsAndIPv6(t *testing.T) {
	here, there := nettest.New(t), nettest.New(t)
	_, end := nettest.Join(t, here, there)
	client, server := nettest.Start(t, here), nettest.Start(t, there)
	listener := server.Listen("udp6", netip.AddrPortFrom(end.IPv6, 53))
	virtual := netip.MustParseAddrPort("[fd77::53]:53")
	here.RouteVia(t, end)
	here.Translate(t, nettest.NAT{Protocol: UDP, To: virtual, Server: listener.Local})
	from := client.Dial("udp6", virtual)
	from.Write(nettest.Transfer{How: "write", Bytes: 10})
	listener.Read(nettest.Transfer{How: "recvfrom", Bytes: 10})
	r := resolver(t, Config{})
	require.Equal(t, []Flow{{Protocol: UDP, Local: listener.Local, Remote: from.Local}},
		r.OtherSides(place(t, client, here), []Flow{of(from, UDP)}))

	tcp := server.Listen("tcp6", netip.MustParseAddrPort("[::]:8080"))
	here.Translate(t, nettest.NAT{Protocol: TCP, To: netip.MustParseAddrPort("192.0.2.80:80"), Server: netip.AddrPortFrom(end.IPv4, 8080)})
	mapped := client.Dial("tcp6", netip.MustParseAddrPort("192.0.2.80:80"))
	accepted := tcp.Accept()
	require.True(t, accepted.Local.Addr().Is4In6())
	require.Equal(t, []Flow{of(accepted, TCP).unmapped()}, r.OtherSides(place(t, client, here), []Flow{of(mapped, TCP)}))
}

// TestNothingIsTracked checks that a namespace without connection tracking costs no request and is no failure.
func TestNothingIsTracked(t *testing.T) {
	n := nettest.New(t)
	p := nettest.Start(t, n)
	listener := p.Listen("tcp4", netip.MustParseAddrPort("127.0.0.1:0"))
	dialled := nettest.Start(t, n).Dial("tcp4", listener.Local)
	r := resolver(t, Config{})
	require.Equal(t, []Flow{of(dialled, TCP).Reversed()}, r.OtherSides(place(t, p, n), []Flow{of(dialled, TCP)}))
	require.Equal(t, Stats{Untranslated: 1}, r.Stats())
	require.NoError(t, r.Degraded())
}

// TestTrackingBegins checks that a namespace that tracked nothing is asked again soon, but not for each flow.
func TestTrackingBegins(t *testing.T) {
	now := time.Unix(1000, 0)
	r := resolver(t, Config{Now: func() time.Time { return now }, Life: time.Millisecond})
	here, there := nettest.New(t), nettest.New(t)
	_, end := nettest.Join(t, here, there)
	client := nettest.Start(t, here)
	listener := nettest.Start(t, there).Listen("tcp4", netip.AddrPortFrom(end.IPv4, 0))
	one := flow("10.0.0.1:1", "10.0.0.2:2")
	require.Equal(t, []Flow{one.Reversed()}, r.OtherSides(place(t, client, here), []Flow{one}))
	virtual := netip.MustParseAddrPort("192.0.2.80:80")
	here.RouteVia(t, end)
	here.Translate(t, nettest.NAT{Protocol: TCP, To: virtual, Server: listener.Local})
	dialled := client.Dial("tcp4", virtual)
	for _, step := range []struct {
		later time.Duration
		want  Flow
	}{{untrackedFor / 2, of(dialled, TCP).Reversed()}, {untrackedFor / 2, of(listener.Accept(), TCP)}} {
		now = now.Add(step.later)
		require.Equal(t, []Flow{step.want}, r.OtherSides(place(t, client, here), []Flow{of(dialled, TCP)}))
	}
}

// TestProcessIsGone checks that a process that has exited, or is in another namespace, is counted and no error.
func TestProcessIsGone(t *testing.T) {
	n := nettest.New(t)
	p := nettest.Start(t, n)
	r := resolver(t, Config{})
	one := flow("10.0.0.1:1", "10.0.0.2:2")
	elsewhere := place(t, p, n)
	elsewhere.Namespace++
	require.Equal(t, []Flow{one.Reversed()}, r.OtherSides(elsewhere, []Flow{one}))
	ended := place(t, p, n)
	p.End()
	require.Equal(t, []Flow{one.Reversed()}, r.OtherSides(ended, []Flow{one}))
	require.Equal(t, Stats{Gone: 2}, r.Stats())
	require.NoError(t, r.Degraded())
}

// TestAnotherProcessIsThere checks that a namespace is entered by any of its processes when others have exited.
func TestAnotherProcessIsThere(t *testing.T) {
	client, server, at, elsewhere := translated(t, true)
	ended := nettest.Start(t, nettest.New(t))
	ended.End()
	at.PIDs = append([]uint32{uint32(ended.PID()), elsewhere.PIDs[0]}, at.PIDs...)
	r := resolver(t, Config{})
	require.Equal(t, []Flow{of(server, TCP)}, r.OtherSides(at, []Flow{of(client, TCP)}))
	require.Equal(t, Stats{Translated: 1}, r.Stats())
}

// TestOneCallIsBounded checks that many new flows at once do not block the caller for long.
func TestOneCallIsBounded(t *testing.T) {
	client, server, at, _ := translated(t, true)
	r := resolver(t, Config{PerCall: 2})
	flows := []Flow{flow("10.1.1.1:1", "10.1.1.2:2"), of(client, TCP), flow("10.1.1.1:3", "10.1.1.2:2")}
	require.Equal(t, []Flow{flows[0].Reversed(), of(server, TCP), flows[2].Reversed()}, r.OtherSides(at, flows))
	require.Equal(t, Stats{Translated: 1, Untranslated: 1, Skipped: 1}, r.Stats())
	r.OtherSides(at, flows)
	require.Equal(t, Stats{Translated: 1, Untranslated: 2, Skipped: 1, Remembered: 2}, r.Stats(), "next time the rest")
}

// BenchmarkOtherSides asks the kernel about flows in another namespace, none of which is cached.
func BenchmarkOtherSides(b *testing.B) {
	_, _, at, _ := translated(b, true)
	rest := nettest.New(b)
	idle := place(b, nettest.Start(b, rest), rest)
	for _, c := range []struct {
		name  string
		at    Place
		batch int
	}{{"1 flow", at, 1}, {"100 flows", at, 100}, {"1 flow, nothing tracked", idle, 1}} {
		b.Run(c.name, func(b *testing.B) {
			r := resolver(b, Config{Life: time.Nanosecond})
			at, batch := c.at, c.batch
			flows := make([]Flow, batch)
			for i := range flows {
				flows[i] = Flow{Protocol: TCP, Local: netip.AddrPortFrom(netip.MustParseAddr("10.1.1.1"), uint16(i+1)), Remote: netip.MustParseAddrPort("10.1.1.2:2")}
			}
			for b.Loop() {
				r.OtherSides(at, flows)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/flow")
		})
	}
}
