// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// NAT is a rule of address translation for one transport address.
type NAT struct {
	Protocol uint8 // IPPROTO_TCP or IPPROTO_UDP
	// To is the destination, as the client has it, of what the rule is for.
	To netip.AddrPort
	// Server, where it is valid, is where that goes instead.
	Server netip.AddrPort
	// Client, where it is valid, is the address that it comes from instead.
	Client netip.Addr
}

// Translate has a namespace translate addresses by these rules: of what it routes and of what it sends itself. They replace earlier rules;
// existing connections stay as they are.
func (n *Namespace) Translate(t testing.TB, rules ...NAT) {
	t.Helper()
	conn, err := nftables.New(nftables.WithNetNSFd(int(n.file.Fd())))
	require.NoError(t, err, "opening a netlink socket for nftables")
	for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6} {
		table := conn.AddTable(&nftables.Table{Name: "nettest", Family: family})
		conn.FlushTable(table)
		var destination []*nftables.Chain
		for _, hook := range []*nftables.ChainHook{nftables.ChainHookPrerouting, nftables.ChainHookOutput} {
			destination = append(destination, conn.AddChain(natChain(table, hook, nftables.ChainPriorityNATDest)))
		}
		source := conn.AddChain(natChain(table, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource))
		for _, rule := range rules {
			if rule.To.Addr().Is4() != (family == nftables.TableFamilyIPv4) {
				continue
			}
			if rule.Server.IsValid() {
				for _, chain := range destination {
					conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: rule.toServer(family)})
				}
			}
			if rule.Client.IsValid() {
				conn.AddRule(&nftables.Rule{Table: table, Chain: source, Exprs: rule.fromClient(family)})
			}
		}
	}
	err = conn.Flush()
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Fatalf("making rules of address translation: %v: the kernel has no nf_tables or lacks its expressions for NAT", err)
	}
	require.NoError(t, err, "making rules of address translation")
}

func natChain(table *nftables.Table, hook *nftables.ChainHook, priority *nftables.ChainPriority) *nftables.Chain {
	return &nftables.Chain{
		Name: map[*nftables.ChainHook]string{
			nftables.ChainHookPrerouting: "routed", nftables.ChainHookOutput: "own", nftables.ChainHookPostrouting: "source",
		}[hook],
		Table: table, Type: nftables.ChainTypeNAT, Hooknum: hook, Priority: priority,
	}
}

// toServer translates the destination.
func (n NAT) toServer(family nftables.TableFamily) []expr.Any {
	return append(matching(n.Protocol, n.To),
		&expr.Immediate{Register: 1, Data: n.Server.Addr().AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(n.Server.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(family), RegAddrMin: 1, RegProtoMin: 2, Specified: true})
}

// fromClient translates the source; the destination has been translated before.
func (n NAT) fromClient(family nftables.TableFamily) []expr.Any {
	to := n.To
	if n.Server.IsValid() {
		to = n.Server
	}
	return append(matching(n.Protocol, to),
		&expr.Immediate{Register: 1, Data: n.Client.AsSlice()},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(family), RegAddrMin: 1})
}

// matching are the packets of a protocol to a destination.
func matching(protocol uint8, to netip.AddrPort) []expr.Any {
	offset, length := uint32(24), uint32(16) // of the destination in an IPv6 header
	if to.Addr().Is4() {
		offset, length = 16, 4
	}
	equal := func(data []byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equal([]byte{protocol}),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length}, equal(to.Addr().AsSlice()),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, equal(binaryutil.BigEndian.PutUint16(to.Port())),
	}
}
