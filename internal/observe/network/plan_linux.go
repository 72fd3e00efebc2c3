// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

const (
	// placeBytes is what a series takes beside its records: its place and its entry in
	// the map of keys.
	placeBytes = 328 + 192
	// recordBytes is what a series takes in each shard.
	recordBytes = 1024
	// listenerBytes is what one who listens takes, of which there are two for each
	// series; countBytes a count of drops, of which there is one.
	listenerBytes, countBytes = 160, 72
	// endBytes is what one of the ends of connections takes.
	endBytes = 160
	// socketBytes is what the kernel keeps of a socket: 192 bytes for its storage, 96 for
	// the element in it, and whose memory each of them is (TestSocketBytes measures it).
	socketBytes = 192 + 96 + 2*8
	// taskBytes is the same of a thread.
	taskBytes = 512
	// socketsPerEnd is how many sockets are remembered for each end that is: an end is
	// looked for when the connection is accepted and when its peer is told first.
	socketsPerEnd = 16
	// minEnds is twice as many connections as wait for one server at most, unless the
	// host is told otherwise (net.core.somaxconn).
	minEnds = 2 * 4096
	// tableShare is the part of the kernel's tables' memory that series take: what is
	// remembered of a hundred thousand sockets comes to it.
	tableShare = 4

	maxSeries = 16384
	minSeries = 64
	// minSockets are remembered in any case.
	minSockets = 64
	// enough series for more shards to be worth more.
	enough    = 2048
	maxShards = 16
	// spare is the part of the places that is kept for series of overflow.
	spare = 16
	// threadsByID bounds the threads whose calls are timed, where there is no task storage.
	threadsByID = 8192
	// socketsByAddress bounds what is remembered of sockets, where they have no storage.
	socketsByAddress = 65536
	// captureBytes is how much is read of a transfer that begins a message: CAPTURE_MOST of
	// bpf/include/network_window.h.
	captureBytes = 4096
	// minBuffer is a ring buffer that nothing is written to.
	minBuffer = 4096
	// socketsPerTLS is how many sockets are remembered for each connection through TLS
	// that is known; of these there are minTLS at least. What was used longest ago is
	// forgotten first, and known again when its library is next called.
	socketsPerTLS = 16
	minTLS        = 4096
	// tlsBytes is what such a connection takes, and a goroutine that is within a call;
	// tlsThreadShare the part of them that have a thread of their own, where there is no
	// task storage.
	tlsBytes       = 184 + 216
	tlsThreadShare = 4
	// oldGoPrograms bounds the programs of Go with arguments on the stack: no more are attached
	// to; oldGoBytes is what one takes.
	oldGoPrograms = 1024
	oldGoBytes    = 80
	// socketsPerFrames is how many sockets are remembered for each connection whose frames
	// of HTTP/2, or whose bodies of HTTP/1, are followed; of these there are minFrames at
	// least. One that is forgotten is followed again from the next frame that is found, or
	// from the next message.
	socketsPerFrames = 16
	minFrames        = 2048
	// framesBytes is what such a connection takes, directions how many of the map's entries.
	framesBytes = directions * 128
	directions  = 2
	// socketsPerAsked is how many sockets are remembered for each connection whose requests are followed
	// where not all of them leave the kernel; of these there are minAsked at least. Of one that is forgotten
	// nothing leaves until its next request.
	socketsPerAsked = 4
	minAsked        = 2048
	// askedBytes is what such a connection takes.
	askedBytes = 184
	// socketsPerHeld is how many sockets are remembered for each whose first bytes of a request wait
	// for more; of these there are minHeld at least. They wait for moments.
	socketsPerHeld = 64
	minHeld        = 1024
	// heldBytes is what such a connection takes.
	heldBytes = 120
	// messagesPerFrames is how many messages of such a connection and direction may be on
	// their way while no more of a body is read than is wanted, messageBytes what one takes.
	messagesPerFrames = 2
	messageBytes      = 96
	// wakeShare is the part of the ring buffer that is full when its reader is woken.
	wakeShare = 4
	// addressBytes and threadBytes are what each of those takes.
	addressBytes, threadBytes = 96, 144
)

// plan is how the kernel's tables share the memory that they may take.
type plan struct {
	series  uint32 // that of nobody included
	shards  uint32 // records of each: CPUs take turns
	sockets uint32
	ends    uint32 // of connections, by which processes find each other
	// capture is how much is read of a transfer, buffer the bytes of the ring buffer for it.
	capture, buffer uint32
	// message is how much is read of a message whose body is wanted; 0: of none.
	message uint32
	// protocols are those that are looked for, a bit for each.
	protocols uint32
	// tls is how many connections through TLS are known, frames how many of HTTP/2.
	tls, frames uint32
	// held is of how many connections the first bytes of a request wait, where not all requests
	// leave the kernel; answers says that.
	held    uint32
	asked   uint32 // connections whose requests are followed there
	answers bool
}

// protocolNumbers are the programs' own.
var protocolNumbers = map[Protocol]bindings.NetworkNetworkProtocol{
	HTTP: bindings.NetworkNetworkProtocolNETWORK_HTTP1, HTTP2: bindings.NetworkNetworkProtocolNETWORK_HTTP2,
	DNS: bindings.NetworkNetworkProtocolNETWORK_DNS,
}

// protocolBits are the protocols that the programs look for.
func (c *Config) protocolBits() uint32 {
	var bits uint32
	for protocol, number := range protocolNumbers {
		if c.looksFor(protocol) {
			bits |= 1 << number
		}
	}
	return bits
}

// newPlan prefers series to shards until there are enough of them.
func newPlan(config Config, cpus int) plan {
	mapBytes := config.MapBytes / tableShare
	p := plan{shards: 1, sockets: uint32(max(config.SocketBytes*socketsPerEnd/(socketBytes*socketsPerEnd+endBytes), minSockets))}
	p.ends = max(p.sockets/socketsPerEnd, minEnds)
	if config.Requests {
		p.capture, p.buffer, p.protocols = captureBytes, config.BufferBytes, config.protocolBits()
		p.message = config.Journal.Samples.Captured()
	}
	if config.Requests && (config.looksFor(HTTP2) || p.message > 0) {
		p.frames = max(p.sockets/socketsPerFrames, minFrames)
	}
	if config.OnlyAnswered {
		p.answers, p.held, p.asked = true, max(p.sockets/socketsPerHeld, minHeld), max(p.sockets/socketsPerAsked, minAsked)
	}
	if config.readsTLS() {
		p.tls = max(p.sockets/socketsPerTLS, minTLS)
	}
	for p.shards < maxShards && int(p.shards) < cpus && fitting(mapBytes, p.shards*2) >= enough {
		p.shards *= 2
	}
	p.series = uint32(min(max(fitting(mapBytes, p.shards), minSeries), maxSeries))
	return p
}

func fitting(mapBytes uint64, shards uint32) uint64 { return mapBytes / bytesOf(shards) }

// bytesOf is what a series takes of everything.
func bytesOf(shards uint32) uint64 {
	return placeBytes + recordBytes*uint64(shards) + 2*listenerBytes + countBytes
}

// bytes is the memory of all tables that are there from the start.
func (p plan) bytes(has features) uint64 {
	bytes := uint64(p.series)*bytesOf(p.shards) + uint64(p.ends)*endBytes + uint64(p.buffer)
	if !has.socketStorage {
		bytes += uint64(min(p.sockets, socketsByAddress)) * addressBytes
	}
	bytes += uint64(p.tls)*tlsBytes + uint64(min(p.tls, oldGoPrograms))*oldGoBytes + uint64(p.frames)*framesBytes + uint64(p.messages())*messageBytes
	bytes += uint64(p.held)*heldBytes + uint64(p.asked)*askedBytes
	if !has.taskStorage {
		bytes += threadsByID*threadBytes + uint64(p.tls/tlsThreadShare)*tlsBytes
	}
	return bytes
}

// messages is how many messages of HTTP/2 are known of which a body is read.
func (p plan) messages() uint32 {
	if p.message == 0 {
		return 0
	}
	return p.frames * directions * messagesPerFrames
}

// size gives an object's tables their sizes.
func (p plan) size(spec *ebpf.CollectionSpec, has features) error {
	for name, entries := range map[string]uint32{
		bindings.NetworkMapNetworkIds:             p.series,
		bindings.NetworkMapNetworkPlaces:          p.series,
		bindings.NetworkMapNetworkRecords:         p.series * p.shards,
		bindings.NetworkMapNetworkFree:            p.series,
		bindings.NetworkMapNetworkSpare:           p.series/spare + 1,
		bindings.NetworkMapNetworkCounts:          p.series,
		bindings.NetworkMapNetworkEnds:            p.ends,
		bindings.NetworkMapNetworkListeners:       p.series,
		bindings.NetworkMapNetworkReceivers:       p.series,
		bindings.NetworkMapNetworkSocketAddresses: min(p.sockets, socketsByAddress),
		bindings.NetworkMapNetworkThreadIds:       threadsByID,
		bindings.NetworkMapNetworkTlsThreadIds:    max(p.tls/tlsThreadShare, 1),
		bindings.NetworkMapNetworkTlsGoroutines:   max(p.tls, 1),
		bindings.NetworkMapNetworkTlsConnections:  max(p.tls, 1),
		bindings.NetworkMapNetworkTlsOldGo:        min(max(p.tls, 1), oldGoPrograms),
		bindings.NetworkMapNetworkFrames:          max(p.frames*directions, 1),
		bindings.NetworkMapNetworkHeld:            max(p.held, 1),
		bindings.NetworkMapNetworkRequests:        max(p.asked, 1),
		bindings.NetworkMapNetworkContents:        max(p.messages(), 1),
		bindings.NetworkMapNetworkPieces:          max(p.buffer, minBuffer),
	} {
		spec.Maps[name].MaxEntries = entries
	}
	// What the kernel has no storage for is kept by address or number; the map that is
	// not used must exist all the same.
	for name, used := range map[string]bool{
		bindings.NetworkMapNetworkSockets:         has.socketStorage,
		bindings.NetworkMapNetworkSocketAddresses: !has.socketStorage,
		bindings.NetworkMapNetworkThreads:         has.taskStorage,
		bindings.NetworkMapNetworkThreadIds:       !has.taskStorage,
		bindings.NetworkMapNetworkTlsThreads:      has.taskStorage,
		bindings.NetworkMapNetworkTlsThreadIds:    !has.taskStorage,
	} {
		if m := spec.Maps[name]; !used {
			m.Type, m.Flags, m.MaxEntries = ebpf.Array, 0, 1
			m.Key, m.Value, m.KeySize = nil, nil, 4
		}
	}
	for name, value := range map[string]any{
		bindings.NetworkVarShards:           p.shards,
		bindings.NetworkVarShardMask:        p.shards - 1,
		bindings.NetworkVarMaxSockets:       p.sockets,
		bindings.NetworkVarEndsKept:         p.ends,
		bindings.NetworkVarSocketStorage:    has.socketStorage,
		bindings.NetworkVarTaskStorage:      has.taskStorage,
		bindings.NetworkVarCaptureBytes:     p.capture,
		bindings.NetworkVarCaptureLimit:     p.message,
		bindings.NetworkVarCaptureProtocols: p.protocols,
		bindings.NetworkVarCaptureAnswers:   p.answers,
		bindings.NetworkVarCaptureWake:      p.buffer / wakeShare,
		bindings.NetworkVarUnixByClose:      p.capture > 0 && (!has.trampolines || !has.unixEnds),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}
