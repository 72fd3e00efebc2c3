// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Of include/uapi/linux/netfilter/nfnetlink.h and nfnetlink_conntrack.h; package unix has none of them.
const (
	subsystem = 1 // NFNL_SUBSYS_CTNETLINK
	get       = 1 // IPCTNL_MSG_CT_GET

	tupleOriginal = 1 // CTA_TUPLE_ORIG
	tupleReply    = 2 // CTA_TUPLE_REPLY
	tupleIP       = 1 // CTA_TUPLE_IP
	tupleProtocol = 2 // CTA_TUPLE_PROTO

	ipv4Source, ipv4Destination = 1, 2 // CTA_IP_V4_SRC, CTA_IP_V4_DST
	ipv6Source, ipv6Destination = 3, 4 // CTA_IP_V6_SRC, CTA_IP_V6_DST

	protocolNumber              = 1    // CTA_PROTO_NUM
	sourcePort, destinationPort = 2, 3 // CTA_PROTO_SRC_PORT, CTA_PROTO_DST_PORT

	headBytes = 4 // of struct nfgenmsg
)

// request asks for the entry of a flow's packets, in whichever direction it was opened.
func request(flow Flow, sequence uint32) ([]byte, error) {
	e := netlink.NewAttributeEncoder()
	e.Nested(tupleOriginal, func(e *netlink.AttributeEncoder) error {
		e.Nested(tupleIP, func(e *netlink.AttributeEncoder) error {
			source, destination := uint16(ipv6Source), uint16(ipv6Destination)
			if flow.Local.Addr().Is4() {
				source, destination = ipv4Source, ipv4Destination
			}
			e.Bytes(source, flow.Local.Addr().AsSlice())
			e.Bytes(destination, flow.Remote.Addr().AsSlice())
			return nil
		})
		e.Nested(tupleProtocol, func(e *netlink.AttributeEncoder) error {
			e.Uint8(protocolNumber, flow.Protocol)
			e.Bytes(sourcePort, binary.BigEndian.AppendUint16(nil, flow.Local.Port()))
			e.Bytes(destinationPort, binary.BigEndian.AppendUint16(nil, flow.Remote.Port()))
			return nil
		})
		return nil
	})
	attributes, err := e.Encode()
	if err != nil {
		return nil, fmt.Errorf("encoding a question to connection tracking: %w", err)
	}
	family := byte(unix.AF_INET6)
	if flow.Local.Addr().Is4() {
		family = unix.AF_INET
	}
	message := netlink.Message{
		Header: netlink.Header{
			Length: uint32(unix.SizeofNlMsghdr + headBytes + len(attributes)), Type: subsystem<<8 | get,
			Flags: netlink.Request, Sequence: sequence,
		},
		Data: append([]byte{family, 0, 0, 0}, attributes...),
	}
	return message.MarshalBinary()
}

// errMalformed: the answer has not the expected format.
var errMalformed = errors.New("the kernel's answer about a connection is not understood")

// otherSide decodes an entry into the flow from the view of the other side. An entry has the flow of packets in the direction in which the
// connection was opened and that of packets back, both as they are before translation: the other side's is the one which is not ours.
func otherSide(ours Flow, data []byte) (Flow, error) {
	if len(data) < headBytes {
		return Flow{}, fmt.Errorf("%w: %d bytes", errMalformed, len(data))
	}
	d, err := netlink.NewAttributeDecoder(data[headBytes:])
	if err != nil {
		return Flow{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	var original, reply Flow
	for d.Next() {
		switch d.Type() {
		case tupleOriginal:
			d.Nested(original.decode)
		case tupleReply:
			d.Nested(reply.decode)
		}
	}
	if err := d.Err(); err != nil {
		return Flow{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	switch ours {
	case original:
		return reply.known()
	case reply:
		return original.known()
	}
	return Flow{}, fmt.Errorf("%w: of neither direction is %v", errMalformed, ours)
}

// known refuses a flow if the answer lacked a part of it.
func (f Flow) known() (Flow, error) {
	if !f.askable() {
		return Flow{}, fmt.Errorf("%w: %v", errMalformed, f)
	}
	return f, nil
}

// decode decodes a tuple: source is Local, destination Remote.
func (f *Flow) decode(d *netlink.AttributeDecoder) error {
	var source, destination netip.Addr
	var from, to uint16
	for d.Next() {
		switch d.Type() {
		case tupleIP:
			d.Nested(func(d *netlink.AttributeDecoder) error { return decodeIP(d, &source, &destination) })
		case tupleProtocol:
			d.Nested(func(d *netlink.AttributeDecoder) error { return decodeProtocol(d, &f.Protocol, &from, &to) })
		}
	}
	f.Local, f.Remote = netip.AddrPortFrom(source, from), netip.AddrPortFrom(destination, to)
	return nil
}

func decodeIP(d *netlink.AttributeDecoder, source, destination *netip.Addr) error {
	for d.Next() {
		address, ok := netip.AddrFromSlice(d.Bytes())
		if !ok {
			return fmt.Errorf("an address of %d bytes", d.Len())
		}
		switch d.Type() {
		case ipv4Source, ipv6Source:
			*source = address
		case ipv4Destination, ipv6Destination:
			*destination = address
		}
	}
	return nil
}

func decodeProtocol(d *netlink.AttributeDecoder, protocol *uint8, source, destination *uint16) error {
	d.ByteOrder = binary.BigEndian
	for d.Next() {
		switch d.Type() {
		case protocolNumber:
			*protocol = d.Uint8()
		case sourcePort:
			*source = d.Uint16()
		case destinationPort:
			*destination = d.Uint16()
		}
	}
	return nil
}
