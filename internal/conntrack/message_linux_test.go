// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"encoding/hex"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// entry makes the kernel's answer about a connection: both of its directions.
func entry(t testing.TB, original, reply Flow) []byte {
	data := []byte{2, 0, 0, 0}
	for direction, flow := range map[uint16]Flow{tupleOriginal: original, tupleReply: reply} {
		one, err := request(flow, 1)
		require.NoError(t, err)
		attributes, err := netlink.UnmarshalAttributes(one[unix.SizeofNlMsghdr+headBytes:])
		require.NoError(t, err)
		attributes[0].Type = direction | netlink.Nested
		raw, err := netlink.MarshalAttributes(attributes)
		require.NoError(t, err)
		data = append(data, raw...)
	}
	status, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: 3, Data: []byte{0, 0, 1, 0x8e}}, {Type: 99, Data: []byte{1}}})
	require.NoError(t, err)
	return append(data, status...)
}

// TestRequest checks the bytes against include/uapi/linux/netfilter/nfnetlink_conntrack.h.
func TestRequest(t *testing.T) {
	message, err := request(flow("10.1.2.3:4660", "192.0.2.80:80"), 7)
	require.NoError(t, err)
	require.Equal(t, ""+
		"480000000101010007000000"+"00000000"+ // length, IPCTNL_MSG_CT_GET of NFNL_SUBSYS_CTNETLINK, NLM_F_REQUEST, sequence
		"02000000"+ // AF_INET
		"34000180"+ // CTA_TUPLE_ORIG, nested
		"14000180"+"080001000a010203"+"08000200c0000250"+ // CTA_TUPLE_IP
		"1c000280"+"0500010006000000"+"0600020012340000"+"0600030000500000", // CTA_TUPLE_PROTO
		hex.EncodeToString(message))
}

func TestOtherSide(t *testing.T) {
	client, service := "10.0.0.1:1234", "192.0.2.80:80"
	for name, c := range map[string]struct{ ours, original, reply, want Flow }{
		"nothing is translated": {flow(client, service), flow(client, service), flow(service, client), flow(service, client)},
		"the client behind another server": {flow(client, service), flow(client, service), flow("10.0.0.9:8080", client),
			flow("10.0.0.9:8080", client)},
		"that server": {flow("10.0.0.9:8080", client), flow(client, service), flow("10.0.0.9:8080", client), flow(client, service)},
		"masqueraded": {flow("10.0.0.9:8080", "10.0.0.254:999"), flow(client, service), flow("10.0.0.9:8080", "10.0.0.254:999"),
			flow(client, service)},
		"IPv6": {flow("[fd00::1]:1", "[fd00::2]:2"), flow("[fd00::1]:1", "[fd00::2]:2"), flow("[fd00::3]:3", "[fd00::1]:1"),
			flow("[fd00::3]:3", "[fd00::1]:1")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := otherSide(c.ours, entry(t, c.original, c.reply))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestOtherSideOfNonsense(t *testing.T) {
	ours := flow("10.0.0.1:1", "10.0.0.2:2")
	whole := entry(t, ours, ours.Reversed())
	for name, data := range map[string][]byte{
		"nothing":         nil,
		"a head alone":    whole[:headBytes],
		"cut":             whole[:len(whole)-30],
		"of another flow": entry(t, flow("10.0.0.9:1", "10.0.0.2:2"), flow("10.0.0.2:2", "10.0.0.9:1")),
		"odd address":     slices.Concat([]byte{2, 0, 0, 0, 20, 0, 1, 0x80, 16, 0, 1, 0x80, 12, 0, 1, 0}, make([]byte, 8)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := otherSide(ours, data)
			require.ErrorIs(t, err, errMalformed)
		})
	}
}

func FuzzOtherSide(f *testing.F) {
	ours := flow("10.0.0.1:1", "10.0.0.2:2")
	f.Add(entry(f, ours, ours.Reversed()))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if other, err := otherSide(ours, data); err == nil {
			require.True(t, other.askable())
		}
	})
}
