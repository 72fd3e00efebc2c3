// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http1"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http2"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

const (
	// lookInterval is how often the ring buffer is read, unless it is full before. Each time that a thread leaves the kernel, Go's
	// runtime looks fifty times, 20 µs apart, what all threads do: to read half as often is to be looked at half as often.
	lookInterval = 100 * time.Millisecond
	// answersInterval is the same where policies wait for answers.
	answersInterval = 50 * time.Millisecond
	// quietFor is how long a connection may be quiet until it is forgotten, if nothing is lost with
	// it.
	quietFor = 5 * time.Minute
	// waitsFor is the same of one that waits for a response: whoever waits may do so for long, and
	// the end of a connection is told but for a few.
	waitsFor = 12 * time.Hour
	// datagramsQuietFor is the same of sockets for datagrams, whose end nobody tells; by
	// then who asked has given up. As often connections are looked for that are quiet.
	datagramsQuietFor = 10 * time.Second
	// waitingBuffers is how often the ring buffer may be emptied into the memory of pieces that
	// wait to be in order, which may be minWaiting bytes in any case.
	waitingBuffers = 2
	minWaiting     = 4 << 20
	// headBytes is how much is kept of a head that is told with a sample, callsOfMessage how
	// many calls of each of its messages are.
	headBytes      = 8 << 10
	callsOfMessage = 64
	// endsUnseen is how long a message whose end may be among lost bytes may be quiet until
	// it is told as far as it is known.
	endsUnseen = time.Minute
)

type piece = bindings.NetworkNetworkPiece

// pieceBytes is the head of a record, before the bytes that it carries.
const pieceBytes = int(unsafe.Sizeof(piece{}))

// capture follows what connections carry.
type capture struct {
	ring   *ring
	places *shared[place]
	// refused has the programs tell no more of connections of which nothing is made.
	refused shared[uint64]
	// carried is told what connections carry.
	carried carried
	totals  *requests.Totals
	// journal is nil where no request is told by itself.
	journal *requests.Journal
	// wall converts CLOCK_MONOTONIC, in ns, as of the last look.
	wall func(ns int64) time.Time

	// answered is told of requests that processes have answered; nil: nobody is.
	answered     func(Answer)
	onlyAnswered bool
	paths        *Paths
	// left and exchanged are those of [Config].
	left      func(pid, length uint32, carried int)
	exchanged func(pid uint32, e *l7.Exchange)
	// charge runs what is done with what was read.
	charge func(work func())

	protocols []l7.Protocol
	sink      l7.Sink
	stats     l7.Stats
	streams   map[streamID]*stream
	// unix are the streams of Unix sockets by the socket, by which alone their ends may be told.
	unix    map[uint64]uint32
	waiting waiting
	// mostWaiting bounds the bytes of pieces that wait to be in order.
	mostWaiting int
	// connected is the memory of connections as measured last, mostConnected its bound.
	connected, mostConnected uint64
	current                  *stream // whose piece is being parsed
	relieving                bool    // connections are given up for want of room
	// clock is how far CLOCK_MONOTONIC, in ns, what was transferred has been recorded, swept what
	// it was at the last sweep.
	clock, swept uint64
	interval     time.Duration // how often the ring is read
	quiet        time.Duration // datagramsQuietFor, but in tests

	crowded uint64 // connections that were given up for want of room
	opaque  opaque
	// libraryOf is the library of a process, as far as that is known; nil where none is looked into.
	libraryOf func(pid uint32) tls.Library
	// told is what was counted until the last look, held the memory of connections as of
	// the last sweep.
	told []atomic.Uint64
	// looks is how often what was written was handed over.
	looks   atomic.Uint64
	held    atomic.Uint64
	closing chan struct{}
	ended   sync.WaitGroup
	stopped bool
}

// startCapture begins to read what programs tell of connections.
func startCapture(config Config, coll *ebpf.Collection, t *table, libraries *tlsAttacher) (*capture, error) {
	ring, err := openRing(coll)
	if err != nil {
		return nil, err
	}
	c := newCapture(config, ring, t)
	if c.refused, err = share[uint64](coll.Maps[bindings.NetworkMapNetworkRefused]); err != nil {
		return nil, errors.Join(err, ring.Close())
	}
	if libraries != nil {
		c.libraryOf = libraries.libraryOf
	}
	c.ended.Go(c.run)
	return c, nil
}

func newCapture(config Config, ring *ring, t *table) *capture {
	c := &capture{
		ring: ring, places: &t.places, carried: t.carried, mostWaiting: max(waitingBuffers*int(config.BufferBytes), minWaiting),
		mostConnected: max(config.ConnectionBytes, minConnected),
		totals:        requests.NewTotals(config.Journal.Redact), streams: map[streamID]*stream{}, unix: map[uint64]uint32{}, opaque: newOpaque(),
		interval: config.interval, quiet: cmp.Or(config.quiet, datagramsQuietFor), told: make([]atomic.Uint64, len(captureReasons)), closing: make(chan struct{}), charge: config.Charge,
		answered: config.Answered, onlyAnswered: config.OnlyAnswered, paths: config.Paths, left: config.left, exchanged: config.exchanged,
	}
	if c.interval == 0 {
		c.interval = lookInterval
		if c.answered != nil {
			c.interval = answersInterval
		}
	}
	if c.charge == nil {
		c.charge = func(work func()) { work() }
	}
	var fields []string
	if config.Journal.Tells() {
		c.journal = requests.NewJournal(config.Journal)
		fields = requests.Fields()
	}
	if config.looksFor(HTTP) {
		c.protocols = append(c.protocols, http1.New(fields, nil))
	}
	if config.looksFor(HTTP2) {
		c.protocols = append(c.protocols, http2.New(fields, nil))
	}
	if config.looksFor(DNS) {
		c.protocols = append(c.protocols, dns.Protocol{})
	}
	c.sink = l7.Sink{Limits: l7.DefaultLimits(), Stats: &c.stats, Exchange: c.exchange, Contents: c.contents(config.Journal.Samples)}
	return c
}

// contents has the content of messages kept for samples, nil where there are no rules.
func (c *capture) contents(samples requests.SamplesConfig) *l7.Contents {
	if len(samples.Rules) == 0 {
		return nil
	}
	return &l7.Contents{
		Wanted: c.journal.Wanted, Body: samples.Limit, Head: headBytes, Calls: callsOfMessage, Left: int(samples.Bytes),
	}
}

// stop has the reader take what is written by now, hand all of it over and end.
func (c *capture) stop() error {
	if c.stopped {
		return nil
	}
	c.stopped = true
	close(c.closing)
	err := c.ring.Flush()
	if err != nil {
		err = errors.Join(fmt.Errorf("taking a last look at what connections carry: %w", err), c.ring.Close())
	}
	c.ended.Wait()
	return err
}

// close ends the reader and frees the ring.
func (c *capture) close() error { return errors.Join(c.stop(), c.ring.Close(), c.refused.close()) }

// run looks until it is stopped. What goes wrong is counted and told with the next
// Drain; then it looks again.
func (c *capture) run() {
	for {
		switch err := c.look(); {
		case errors.Is(err, ringbuf.ErrFlushed), errors.Is(err, os.ErrClosed):
			c.finish()
			return
		case err != nil:
			c.ring.fail(err)
			select {
			case <-c.closing:
				c.finish()
				return
			case <-time.After(c.interval):
			}
		}
		c.tellLosses()
		if c.clock-c.swept >= uint64(c.quiet) {
			c.swept = c.clock
			c.sweep(c.clock)
		}
		c.looks.Add(1)
	}
}

// finish hands over what waits to be in order: nothing comes before it any more.
func (c *capture) finish() {
	if err := c.handOver(func(_ uint64, record func(*piece, []byte)) { c.waiting.takeUntil(math.MaxUint64, record) }); err != nil {
		c.ring.fail(err)
	}
	c.tellLosses()
}

// tellLosses lets others read what was counted.
func (c *capture) tellLosses() {
	for i, reason := range captureReasons {
		c.told[i].Store(reason.of(c))
	}
}

// look takes what is written within an interval and hands over what is in order.
func (c *capture) look() error {
	began, _, err := kernel.Monotonic()
	if err != nil {
		return err
	}
	var failed error
	err = c.ring.look(time.Now().Add(c.interval), func(raw []byte) {
		c.waiting.add(raw)
		if c.waiting.size() > c.mostWaiting {
			// Better out of order than without a bound: what comes late is known as such by TCP.
			failed = errors.Join(failed, c.handOver(c.waiting.takeUntil))
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if err := c.handOver(c.waiting.take); err != nil {
		return err
	}
	// However long this thread did not run meanwhile, what was written before is recorded.
	c.clock = uint64(began - min(began, orderPatience.Nanoseconds()))
	return nil
}

// handOver has the pieces recorded that take hands over, by the clock as it is now.
func (c *capture) handOver(take func(now uint64, record func(*piece, []byte))) error {
	now, wall, err := kernel.Monotonic()
	if err != nil {
		return err
	}
	c.wall = wall
	c.charge(func() { take(uint64(now), c.record) })
	return nil
}

// roles are who connected and who accepted.
var roles = map[bindings.NetworkNetworkRole]l7.Role{
	bindings.NetworkNetworkRoleNETWORK_CLIENT: l7.RoleClient, bindings.NetworkNetworkRoleNETWORK_SERVER: l7.RoleServer,
}

// record takes what one transfer left.
func (c *capture) record(p *piece, data []byte) {
	if c.left != nil {
		c.left(c.whom(p).Subject.PID, p.Length, len(data))
	}
	id := c.idOf(p)
	s := c.streams[id]
	if bindings.NetworkNetworkPieceKind(p.Kind) == bindings.NetworkNetworkPieceKindNETWORK_PIECE_CLOSED {
		if s != nil {
			c.forget(id, s)
		} else if p.Protocol == uint8(bindings.NetworkNetworkProtocolNETWORK_TLS) {
			c.noteOpaque(p)
		}
		return
	}
	if s == nil {
		s = &stream{conn: l7.NewConn(c.protocols, c.transport(p), roles[bindings.NetworkNetworkRole(p.Role)], &c.sink)}
		s.datagrams = c.transport(p) == l7.UDP
		if c.isUnix(p) {
			if before, known := c.unix[id.sock]; known { // whose end was not told
				id := streamID{id.sock, before}
				c.forget(id, c.streams[id])
			}
			c.unix[id.sock] = id.stream
		}
		c.streams[id] = s
		c.measure(s)
	}
	s.last = p.Ended
	if s.whom == (requests.Whom{}) || s.series != p.Series || s.generation != p.Generation {
		s.series, s.generation = p.Series, p.Generation
		s.whom = c.whom(p)
		c.carried.note(p.Series, p.Generation, p.Protocol&^uint8(bindings.NetworkNetworkProtocolNETWORK_TLS))
	}
	if p.Length > 0 && p.Kind <= uint8(l7.Write) {
		c.feed(id, s, p, data)
	}
	if c.connected > c.mostConnected {
		c.relieve()
	}
}

// idOf is the connection that a piece is of.
func (c *capture) idOf(p *piece) streamID {
	stream := p.Stream
	if stream == 0 {
		stream = c.unix[p.Sock]
	}
	return streamID{p.Sock, stream}
}

// feed has a connection parsed.
func (c *capture) feed(id streamID, s *stream, p *piece, data []byte) {
	c.current = s
	lost, lostAt := s.lost(p)
	s.conn.Feed(l7.Piece{
		Direction: l7.Direction(p.Kind), Began: int64(p.Began), Ended: int64(p.Ended),
		Length: int64(p.Length), Data: data, Lost: lost, LostAt: lostAt, Wire: wireOf(p),
	})
	if s.datagrams && s.settled(data) && s.conn.Idle() {
		c.forget(id, s)
		return
	}
	if s.conn.Astray() {
		c.refuse(id)
	}
	if s.fed%measureEvery == 0 {
		c.measure(s)
	}
	s.fed++
}

// refuse has the programs look at a connection anew: nothing is made of what it carries, as after an upgrade to another protocol, or
// where it only seemed to be one that is known. They tell of its end then. Until they do it is refused with each piece: another
// connection may have taken its place.
func (c *capture) refuse(id streamID) {
	if n := uint32(len(c.refused.items)); n > 0 {
		atomic.StoreUint64(&c.refused.items[id.stream%n], uint64(id.stream))
	}
}

// wireOf is what TCP did for the call that a piece is of.
func wireOf(p *piece) l7.Wire {
	return l7.Wire{Counted: p.Packets > 0, Packets: int64(p.Packets) - 1, RTT: int64(p.Rtt) * time.Microsecond.Nanoseconds()}
}

// noteOpaque notes a connection of whose plaintext nothing was seen.
func (c *capture) noteOpaque(p *piece) {
	key := opaqueKey{subject: c.whom(p).Subject}
	if c.libraryOf != nil && c.place(p) != nil {
		key.library = c.libraryOf(key.subject.PID)
	}
	c.opaque.see(key)
}

// place is the kernel's series that a piece belongs to, nil where it is another's by now.
func (c *capture) place(p *piece) *place {
	if int(p.Series) >= len(c.places.items) {
		return nil
	}
	at := &c.places.items[p.Series]
	if at.Generation != p.Generation {
		return nil
	}
	return at
}

// transport is what carries a piece: where that is not known any more a stream, as most
// are.
func (c *capture) transport(p *piece) l7.Transport {
	at := c.place(p)
	if at != nil && bindings.NetworkNetworkTransport(at.Key.Transport) == bindings.NetworkNetworkTransportNETWORK_UDP {
		return l7.UDP
	}
	return l7.TCP
}

// isUnix tells whether a piece is of a Unix socket.
func (c *capture) isUnix(p *piece) bool {
	at := c.place(p)
	return at != nil && bindings.NetworkNetworkTransport(at.Key.Transport) == bindings.NetworkNetworkTransportNETWORK_UNIX
}

// whom says who took part, as the kernel's series tells it.
func (c *capture) whom(p *piece) requests.Whom {
	at := c.place(p)
	if at == nil {
		return requests.Whom{}
	}
	return requests.Whom{
		Subject: observe.SubjectKey{PID: at.Key.Pid, StartBoottime: at.Key.StartBoottime, ExecID: at.Key.ExecId},
		Peer:    netip.AddrPortFrom(addressOf(at.Key.Family, at.Key.Address), at.Key.Port),
		Series:  p.Series, Generation: p.Generation,
		TLS: p.Protocol&uint8(bindings.NetworkNetworkProtocolNETWORK_TLS) != 0,
	}
}

// exchange takes a request and its response.
func (c *capture) exchange(e *l7.Exchange) {
	if c.relieving && e.Outcome != l7.Complete {
		return // nobody knows how it will end
	}
	whom := c.current.whom
	if whom.Subject == (observe.SubjectKey{}) {
		return
	}
	if c.exchanged != nil {
		c.exchanged(whom.Subject.PID, e)
	}
	if c.answered != nil {
		c.answer(whom.Subject, e)
	}
	if c.onlyAnswered {
		return
	}
	if route, counted := c.totals.Add(whom, e); counted && c.journal != nil {
		c.journal.Add(whom, e, route, c.wall)
	}
}

// takeTop returns the requests that took longest since the last call.
func (c *capture) takeTop() map[requests.Reason][]*requests.Request {
	if c.journal == nil {
		return nil
	}
	return c.journal.TakeTop()
}

// waitingBytes is the memory of requests that wait to be told one by one.
func (c *capture) waitingBytes() uint64 {
	if c.journal == nil {
		return 0
	}
	return c.journal.Bytes()
}

func (c *capture) forget(id streamID, s *stream) {
	c.current = s
	s.conn.Close()
	delete(c.streams, id)
	if c.unix[id.sock] == id.stream {
		delete(c.unix, id.sock)
	}
	c.connected -= s.held
}

// sweep forgets connections that have been quiet for long, and tells messages whose end will not be seen. Now is the time, of
// CLOCK_MONOTONIC in ns, until which is recorded what was transferred: it goes on where nothing is.
func (c *capture) sweep(now uint64) {
	for id, s := range c.streams {
		if now-min(now, s.last) > uint64(c.mayBeQuiet(s)) {
			c.forget(id, s)
			continue
		}
		c.current = s
		s.conn.Expire(int64(now) - endsUnseen.Nanoseconds())
		c.measure(s)
	}
	c.held.Store(c.connected + uint64(c.waiting.held()))
}
