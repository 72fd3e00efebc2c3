// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import "sync/atomic"

// carried has the protocols that the connections of each series were found to carry, by the series' slot: a bit for each number of a protocol
// and, above these, the generation of the series. The reader of segments writes it, reports read it.
type carried []atomic.Uint64

// generationShift leaves the lower half to the bits of protocols.
const generationShift = 32

// note adds a protocol.
func (c carried) note(id, generation uint32, protocol uint8) {
	if int(id) >= len(c) {
		return
	}
	known := c[id].Load()
	if known>>generationShift != uint64(generation) {
		known = uint64(generation) << generationShift
	}
	c[id].Store(known | 1<<(protocol&(generationShift-1)))
}

// name returns the network.protocol.name of what the connections of a series were found to carry; empty if it is unknown, or if there are
// several.
func (c carried) name(id, generation uint32) Protocol {
	if int(id) >= len(c) {
		return ""
	}
	known := c[id].Load()
	if known>>generationShift != uint64(generation) {
		return ""
	}
	var name Protocol
	for _, d := range protocols {
		of := Protocol(d.Protocol())
		if known>>d.Number&1 == 0 || of == name {
			continue
		}
		if name != "" {
			return ""
		}
		name = of
	}
	return name
}
