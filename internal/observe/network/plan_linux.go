// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol"
)

const (
	// slotBytes is the memory of a series without its records: its slot and its entry in the map of keys.
	slotBytes = 328 + 192
	// recordBytes is the memory of a series in each shard.
	recordBytes = 1024
	// listenerBytes is the memory of a listener, of which there are two for each series; countBytes that of a count of drops, of which there
	// is one.
	listenerBytes, countBytes = 160, 72
	// shareBytes is the memory of the number of a process's series, of which there is one for seriesPerShare of all series.
	shareBytes, seriesPerShare = 96, 4
	// endBytes is the memory of one of the ends of connections.
	endBytes = 160
	// socketBytes is what the kernel keeps of a socket: 192 bytes for its storage, 96 for the element in it, and the owner of each of them
	// (TestMeasureSocketBytes measures it).
	socketBytes = 192 + 96 + 2*8
	// listedBytes is what a listed socket takes in addition, an element of a hash map: 80 bytes, for which the kernel allocates 96
	// (TestMeasureListedSocketBytes measures it). bucketBytes is a bucket of that map. Their number is the next power of two.
	listedBytes, bucketBytes = 96, 16
	// taskBytes is what the kernel keeps of a thread.
	taskBytes = 512
	// socketsPerEnd is the number of remembered sockets for each end that is kept: an end is looked up when the connection is accepted and
	// when its peer is first reported.
	socketsPerEnd = 16
	// minEnds is twice the maximum number of connections that wait for one server, by the default of net.core.somaxconn.
	minEnds = 2 * 4096
	// tableShare is the part of the kernel's tables' memory that series take. By the default limits they are some 3,700. A server that forks
	// for each of 200 requests in a second has 2,000 of them in use: one of an exited process stays for two reports.
	tableShare = 2

	maxSeries = 16384
	minSeries = 64
	// minSockets are remembered in any case.
	minSockets = 64
	// enough is the number of series above which more shards are worth more than more series.
	enough    = 2048
	maxShards = 16
	// spare is the part of the slots that is kept for overflow series.
	spare = 16
	// threadsByID bounds the threads whose calls are timed without task storage.
	threadsByID = 8192
	// socketsByAddress bounds the remembered sockets without socket storage.
	socketsByAddress = 65536
	// captureBytes is how much is captured of a transfer that begins a message: CAPTURE_MAX of bpf/include/network_window.h.
	captureBytes = 4096
	// minBuffer is the size of a ring buffer that nothing is written to.
	minBuffer = 4096
	// socketsPerTLS is the number of remembered sockets for each connection through TLS that is known; there are at least minTLS of these.
	// The least recently used one is evicted first, and known again when its library is next called.
	socketsPerTLS = 16
	minTLS        = 4096
	// tlsBytes is the memory of such a connection, and of a goroutine that is within a call; tlsThreadShare the part of them that have a
	// thread of their own, if there is no task storage.
	tlsBytes       = 184 + 216
	tlsThreadShare = 4
	// oldGoPrograms bounds the Go programs with arguments on the stack: no more are attached to; oldGoBytes is the memory of one.
	oldGoPrograms = 1024
	oldGoBytes    = 80
	// socketsPerFrames is the number of remembered sockets for each connection whose HTTP/2 frames, or whose pipelined messages or bodies of
	// HTTP/1, are followed; there are at least minFrames of these. An evicted one is followed again from the next frame that is found, or
	// from the next message.
	socketsPerFrames = 16
	minFrames        = 2048
	// framesBytes is the memory of such a connection, directions the number of its entries in the map.
	framesBytes = directions * 128
	directions  = 2
	// socketsPerAsked is the number of remembered sockets for each connection whose requests are followed if not all of them leave the
	// kernel; there are at least minAsked of these. Of an evicted one nothing leaves until its next request.
	socketsPerAsked = 4
	minAsked        = 2048
	// askedBytes is the memory of such a connection.
	askedBytes = 184
	// socketsPerHeld is the number of remembered sockets for each one whose first bytes of a request wait for more; there are at least
	// minHeld of these. They wait for moments.
	socketsPerHeld = 64
	minHeld        = 1024
	// heldBytes is the memory of such a connection.
	heldBytes = 120
	// framesPerTail is the number of such connections for each one whose beginning of an HTTP/1 message waits for more; there are at least
	// minTails of these. They wait for moments.
	framesPerTail = 8
	minTails      = 256
	// tailBytes is the memory of such a beginning.
	tailBytes = 1128
	// messagesPerFrames is how many messages of such a connection and direction may be under way while only the needed part of a body is
	// captured, messageBytes the memory of one.
	messagesPerFrames = 2
	messageBytes      = 96
	// socketsPerRing is the number of remembered sockets for each direction of a socket that has an io_uring request under way; there are at
	// least minRings of these. ringBytes is the memory of one.
	socketsPerRing = 4
	minRings       = 4096
	ringBytes      = 112
	// wakeShare is the part of the ring buffer that is full when its reader is woken.
	wakeShare = 4
	// addressBytes and threadBytes are the memory of a socket by address and of a thread by id.
	addressBytes, threadBytes = 96, 144
)

// plan is how the kernel's tables share their memory.
type plan struct {
	series  uint32 // including the host's own
	shards  uint32 // records of each series: CPUs take turns
	sockets uint32
	ends    uint32 // of connections, by which processes find each other
	// capture is how much is captured of a transfer, buffer the bytes of the ring buffer for it.
	capture, buffer uint32
	// message is how much is captured of a message whose body is needed; 0: no body is.
	message uint32
	// protocols are those that are parsed, one bit each.
	protocols uint32
	// tls is how many connections through TLS are known, frames how many of HTTP/2.
	tls, frames uint32
	// held is for how many connections the first bytes of a request wait, if answers is set: not all requests leave the kernel.
	held    uint32
	asked   uint32 // connections whose requests are followed in the kernel
	answers bool
	// exponential makes the kernel count times in powers of two.
	exponential bool
}

// protocols are those that are parsed. Their numbers are those of the BPF programs.
var protocols = protocol.All()

// protocolBits returns the protocols that the programs parse.
func (c *Config) protocolBits() uint32 {
	var bits uint32
	for _, d := range protocols {
		if c.looksFor(Protocol(d.Name)) {
			bits |= 1 << d.Number
		}
	}
	return bits
}

// newPlan prefers series to shards until there are enough series.
func newPlan(config Config, has features, cpus int) plan {
	mapBytes := config.MapBytes / tableShare
	p := plan{shards: 1, exponential: config.ExponentialHistograms, sockets: uint32(max(config.SocketBytes*socketsPerEnd/(has.bytesOfSocket()*socketsPerEnd+endBytes), minSockets))}
	if has.listed && has.socketStorage && !has.allocates { // the list is allocated as a whole
		p.sockets = min(p.sockets, socketsByAddress)
	}
	p.ends = max(p.sockets/socketsPerEnd, minEnds)
	if config.Requests {
		p.capture, p.buffer, p.protocols = captureBytes, config.BufferBytes, config.protocolBits()
		p.message = config.Journal.Samples.Captured()
	}
	if config.Requests && (config.looksFor(HTTP) || config.looksFor(HTTP2)) {
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

// bytesOfSocket returns the memory of a remembered socket at most. By its address it takes less than in socket storage, listed too.
func (f features) bytesOfSocket() uint64 {
	if f.listed && f.socketStorage {
		return socketBytes + listedBytes + 2*bucketBytes
	}
	return socketBytes
}

// listSize returns how many sockets can be listed.
func (p plan) listSize(has features) uint32 {
	switch {
	case !has.listed:
		return 1
	case has.socketStorage:
		return p.sockets
	}
	return min(p.sockets, socketsByAddress)
}

// listBytes returns the memory that the list of sockets takes from the start.
func (p plan) listBytes(has features) uint64 {
	size := uint64(p.listSize(has))
	switch {
	case !has.listed:
		return 0
	case has.allocates:
		return bucketBytes << bits.Len64(size-1)
	}
	return bucketBytes<<bits.Len64(size-1) + size*listedBytes
}

func fitting(mapBytes uint64, shards uint32) uint64 { return mapBytes / bytesOf(shards) }

// bytesOf returns the memory of a series in all tables.
func bytesOf(shards uint32) uint64 {
	return slotBytes + recordBytes*uint64(shards) + 2*listenerBytes + countBytes + shareBytes/seriesPerShare
}

// bytes returns the memory of all tables that exist from the start.
func (p plan) bytes(has features) uint64 {
	bytes := uint64(p.series)*bytesOf(p.shards) + uint64(p.ends)*endBytes + uint64(p.buffer)
	if !has.socketStorage {
		bytes += uint64(min(p.sockets, socketsByAddress)) * addressBytes
	}
	bytes += p.listBytes(has)
	bytes += uint64(p.tls)*tlsBytes + uint64(min(p.tls, oldGoPrograms))*oldGoBytes + uint64(p.frames)*framesBytes + uint64(p.messages())*messageBytes
	bytes += uint64(p.held)*heldBytes + uint64(p.asked)*askedBytes + uint64(p.rings(has))*ringBytes + uint64(p.tails())*tailBytes
	if !has.taskStorage {
		bytes += threadsByID*threadBytes + uint64(p.tls/tlsThreadShare)*tlsBytes
	}
	return bytes
}

// rings returns for how many directions of sockets io_uring requests under way are known.
func (p plan) rings(has features) uint32 {
	if !has.followsUring() {
		return 0
	}
	return max(p.sockets/socketsPerRing, minRings)
}

// tails returns how many beginnings of HTTP/1 messages may wait. If not all requests leave the kernel they are those of connections whose
// requests are pipelined, which are few.
func (p plan) tails() uint32 {
	switch {
	case p.frames == 0:
		return 0
	case p.answers:
		return minTails
	}
	return max(p.frames/framesPerTail, minTails)
}

// messages returns how many HTTP/2 messages are known of which a body is captured.
func (p plan) messages() uint32 {
	if p.message == 0 {
		return 0
	}
	return p.frames * directions * messagesPerFrames
}

// sizes are what the loader sets in an object: the entries of maps, whether maps of which the kernel needs one of two are used, and variables.
type sizes struct {
	entries   map[string]uint32
	used      map[string]bool
	variables map[string]any
}

// connectionSizes are those of both objects.
func (p plan) connectionSizes(has features) sizes {
	return sizes{
		entries: map[string]uint32{
			bindings.NetworkMapNetworkIds:             p.series,
			bindings.NetworkMapNetworkSlots:           p.series,
			bindings.NetworkMapNetworkRecords:         p.series * p.shards,
			bindings.NetworkMapNetworkFreeSlots:       p.series,
			bindings.NetworkMapNetworkOverflowSlots:   p.series/spare + 1,
			bindings.NetworkMapNetworkCounts:          p.series,
			bindings.NetworkMapNetworkShares:          p.series / seriesPerShare,
			bindings.NetworkMapNetworkEnds:            p.ends,
			bindings.NetworkMapNetworkListeners:       p.series,
			bindings.NetworkMapNetworkReceivers:       p.series,
			bindings.NetworkMapNetworkSocketAddresses: min(p.sockets, socketsByAddress),
			bindings.NetworkMapNetworkListedSockets:   p.listSize(has),
			bindings.NetworkMapNetworkThreadIds:       threadsByID,
		},
		used: map[string]bool{
			bindings.NetworkMapNetworkSockets:         has.socketStorage,
			bindings.NetworkMapNetworkSocketAddresses: !has.socketStorage,
			bindings.NetworkMapNetworkListedSockets:   has.listed,
			bindings.NetworkMapNetworkThreads:         has.taskStorage,
			bindings.NetworkMapNetworkThreadIds:       !has.taskStorage,
		},
		variables: map[string]any{
			bindings.NetworkVarPowersOfTwo:   p.exponential,
			bindings.NetworkVarShards:        p.shards,
			bindings.NetworkVarShardMask:     p.shards - 1,
			bindings.NetworkVarMaxSockets:    p.sockets,
			bindings.NetworkVarEndsKept:      p.ends,
			bindings.NetworkVarSocketStorage: has.socketStorage,
			bindings.NetworkVarSocketsListed: has.listed,
			bindings.NetworkVarTaskStorage:   has.taskStorage,
		},
	}
}

// captureSizes are those of the object with capture in addition.
func (p plan) captureSizes(has features) sizes {
	return sizes{
		entries: map[string]uint32{
			bindings.NetworkCaptureMapNetworkTlsThreadIds:   max(p.tls/tlsThreadShare, 1),
			bindings.NetworkCaptureMapNetworkTlsGoroutines:  max(p.tls, 1),
			bindings.NetworkCaptureMapNetworkTlsConnections: max(p.tls, 1),
			bindings.NetworkCaptureMapNetworkTlsOldGo:       min(max(p.tls, 1), oldGoPrograms),
			bindings.NetworkCaptureMapNetworkFrames:         max(p.frames*directions, 1),
			bindings.NetworkCaptureMapNetworkTails:          max(p.tails(), 1),
			bindings.NetworkCaptureMapNetworkHeld:           max(p.held, 1),
			bindings.NetworkCaptureMapNetworkRequests:       max(p.asked, 1),
			bindings.NetworkCaptureMapNetworkContents:       max(p.messages(), 1),
			bindings.NetworkCaptureMapNetworkSegments:       max(p.buffer, minBuffer),
			bindings.NetworkCaptureMapNetworkUrings:         max(p.rings(has), 1),
		},
		used: map[string]bool{
			bindings.NetworkCaptureMapNetworkTlsThreads:   has.taskStorage,
			bindings.NetworkCaptureMapNetworkTlsThreadIds: !has.taskStorage,
		},
		variables: map[string]any{
			bindings.NetworkCaptureVarCaptureBytes:     p.capture,
			bindings.NetworkCaptureVarCaptureLimit:     p.message,
			bindings.NetworkCaptureVarCaptureProtocols: p.protocols,
			bindings.NetworkCaptureVarCaptureAnswers:   p.answers,
			bindings.NetworkCaptureVarCaptureWake:      p.buffer / wakeShare,
			bindings.NetworkCaptureVarUringFollowed:    has.followsUring(),
			bindings.NetworkCaptureVarUnixByClose:      p.capture > 0 && (!has.trampolines || !has.unixEnds),
		},
	}
}

// size sets the sizes of an object's tables.
func (p plan) size(spec *ebpf.CollectionSpec, has features) error {
	if !has.allocates {
		spec.Maps[bindings.NetworkMapNetworkListedSockets].Flags = 0
	}
	all := []sizes{p.connectionSizes(has)}
	if has.requests {
		all = append(all, p.captureSizes(has))
	}
	for _, s := range all {
		if err := s.set(spec); err != nil {
			return err
		}
	}
	return nil
}

func (s sizes) set(spec *ebpf.CollectionSpec) error {
	for name, entries := range s.entries {
		spec.Maps[name].MaxEntries = entries
	}
	// Without storage in the kernel the state is kept by address or number; the unused map must exist all the same.
	for name, used := range s.used {
		if m := spec.Maps[name]; !used {
			m.Type, m.Flags, m.MaxEntries = ebpf.Array, 0, 1
			m.Key, m.Value, m.KeySize = nil, nil, 4
		}
	}
	for name, value := range s.variables {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}
