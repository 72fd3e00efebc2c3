// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import "sync/atomic"

// carried is what connections of series were found to carry, by the series' place: a bit
// for each number of a protocol and, above these, the generation of the series. Who reads
// pieces notes it, who reports reads it.
type carried []atomic.Uint64

// generationShift leaves room for the bits of protocols.
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

// name is the conventions' network.protocol.name of what the connections of a series were
// found to carry; nothing where none is known, or several are.
func (c carried) name(id, generation uint32) Protocol {
	if int(id) >= len(c) {
		return ""
	}
	known := c[id].Load()
	if known>>generationShift != uint64(generation) {
		return ""
	}
	var name Protocol
	for of, number := range protocolNumbers {
		if of == HTTP2 {
			of = HTTP
		}
		if known>>number&1 == 0 || of == name {
			continue
		}
		if name != "" {
			return ""
		}
		name = of
	}
	return name
}
