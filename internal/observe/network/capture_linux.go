// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"cmp"
	"errors"
	"fmt"
	"math"
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
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

const (
	// readInterval is how often the ring buffer is read, unless it is full before. Each time that a thread leaves the kernel, Go's runtime
	// polls fifty times, 20 µs apart, for work of other threads: reading half as often halves that polling.
	readInterval = 100 * time.Millisecond
	// answersInterval is readInterval if policies wait for answers.
	answersInterval = 50 * time.Millisecond
	// quietFor is how long a connection may be quiet until it is forgotten, if nothing is lost with it.
	quietFor = 5 * time.Minute
	// waitsFor is quietFor for a connection that waits for a response: a client may wait for long, and only few ends of connections are not
	// recorded.
	waitsFor = 12 * time.Hour
	// datagramsQuietFor is quietFor for datagram sockets, whose end is not recorded; by then the client has given up. It is also the interval
	// at which quiet connections are searched.
	datagramsQuietFor = 10 * time.Second
	// waitingBuffers bounds the memory of segments that wait to be in order, in sizes of the ring buffer; they may always take minWaiting
	// bytes.
	waitingBuffers = 2
	minWaiting     = 4 << 20
	// headBytes is how much is kept of a head that is exported with a sample, callsOfMessage how many calls of each of its messages are.
	headBytes      = 8 << 10
	callsOfMessage = 64
	// endsUnseen is how long a message whose end may be among lost bytes may be quiet until it is reported as far as it is known.
	endsUnseen = time.Minute
)

type segment = bindings.NetworkNetworkSegment

// segmentHeadBytes is the head of a record, before the bytes that it carries.
const segmentHeadBytes = int(unsafe.Sizeof(segment{}))

// capture parses what connections carry.
type capture struct {
	ring  *ring
	slots *shared[slot]
	// refused makes the programs capture no more of connections that cannot be parsed.
	refused shared[uint64]
	// carried has the protocols of connections.
	carried carried
	totals  *requests.Totals
	// journal is nil if no request is exported one by one.
	journal *requests.Journal
	// wall converts CLOCK_MONOTONIC, in ns, as of the last round of the reader.
	wall func(ns int64) time.Time

	// answered is called for requests that processes have answered; nil: for none.
	answered     func(Answer)
	onlyAnswered bool
	paths        *Paths
	// left and exchanged are those of [Config].
	left      func(pid, length uint32, carried int)
	exchanged func(pid uint32, e *l7.Exchange)
	// charge runs the parsing of captured bytes and accounts for its cost.
	charge func(work func())

	protocols []l7.Protocol
	sink      l7.Sink
	stats     l7.Stats
	streams   map[streamID]*stream
	// unix are the streams of Unix and datagram sockets, by the socket: their ends may have no other identification.
	unix    map[uint64]uint32
	waiting waiting
	// mostWaiting bounds the bytes of segments that wait to be in order.
	mostWaiting int
	// connected is the memory of connections as last measured, mostConnected its bound.
	connected, mostConnected uint64
	current                  *stream // whose segment is being parsed
	relieving                bool    // connections are given up for lack of memory
	unfinished               uint64  // requests of the connection that is given up for that
	sweeping                 int64   // CLOCK_MONOTONIC, ns, while connections are given up that one end has ended; else 0
	// clock is the time of CLOCK_MONOTONIC, in ns, until which all transfers have been recorded, swept its value at the last sweep.
	clock, swept uint64
	interval     time.Duration // how often the ring is read
	// quiet and endedFor are datagramsQuietFor and endedFor, except in tests.
	quiet, endedFor time.Duration
	// patience is orderPatience in ns, except in tests.
	patience *atomic.Int64

	lost   *requests.Losses // of connections, by process
	opaque opaque
	// unseen are connections with transfers by io_uring that the programs did not capture completely.
	unseen opaque
	late   late
	// libraryOf returns the library of a process, as far as it is known; nil if no library is attached to.
	libraryOf func(pid uint32) tls.Library
	// attachedAt returns when a process's library was attached to, in ns of CLOCK_MONOTONIC; 0: it is not, as far as is known.
	attachedAt func(pid uint32) uint64
	// rounds is the number of rounds of the reader.
	rounds  atomic.Uint64
	held    atomic.Uint64 // the memory of connections as of the last sweep
	closing chan struct{}
	ended   sync.WaitGroup
	stopped bool
}

// startCapture starts reading what the programs capture of connections.
func startCapture(config Config, coll *ebpf.Collection, t *table, libraries *tlsAttacher) (*capture, error) {
	ring, err := openRing(coll)
	if err != nil {
		return nil, err
	}
	c := newCapture(config, ring, t)
	if c.refused, err = share[uint64](coll.Maps[bindings.NetworkCaptureMapNetworkRefused]); err != nil {
		return nil, errors.Join(err, ring.Close())
	}
	if libraries != nil {
		c.libraryOf, c.attachedAt = libraries.libraryOf, libraries.attachedAt
	}
	c.ended.Go(c.run)
	return c, nil
}

func newCapture(config Config, ring *ring, t *table) *capture {
	c := &capture{
		ring: ring, slots: &t.slots, carried: t.carried, mostWaiting: max(waitingBuffers*int(config.BufferBytes), minWaiting),
		mostConnected: max(config.ConnectionBytes, minConnected),
		totals:        requests.NewTotals(config.Journal.Redact), streams: map[streamID]*stream{}, unix: map[uint64]uint32{},
		lost: requests.NewLosses(), opaque: newOpaque(), unseen: newOpaque(), late: newLate(),
		interval: config.interval, patience: config.patience, quiet: cmp.Or(config.quiet, datagramsQuietFor), endedFor: cmp.Or(config.quiet, endedFor), closing: make(chan struct{}), charge: config.Charge,
		answered: config.Answered, onlyAnswered: config.OnlyAnswered, paths: config.Paths, left: config.left, exchanged: config.exchanged,
	}
	c.totals.ByPeer(t.reported.of)
	if config.ByInstance {
		c.totals.ByInstance()
	}
	if config.ExponentialHistograms {
		c.totals.Exponential()
	}
	if config.RequestBytes > 0 {
		c.totals.Bound(config.RequestBytes)
	}
	if c.patience == nil {
		c.patience = &atomic.Int64{}
		c.patience.Store(int64(orderPatience))
	}
	if c.interval == 0 {
		c.interval = readInterval
		if c.answered != nil {
			c.interval = answersInterval
		}
	}
	if c.charge == nil {
		c.charge = func(work func()) { work() }
	}
	if config.Journal.Enabled() {
		c.journal = requests.NewJournal(config.Journal)
		c.journal.CountIn(c.lost)
	}
	for _, d := range protocols {
		if config.looksFor(Protocol(d.Name)) {
			c.protocols = append(c.protocols, d.New(l7.Options{Records: c.journal != nil}))
		}
	}
	c.sink = l7.Sink{Limits: l7.DefaultLimits(), Stats: &c.stats, Exchange: c.exchange, Contents: c.contents(config.Journal.Samples)}
	return c
}

// contents configures the content of messages that is kept for samples, nil if there are no rules.
func (c *capture) contents(samples requests.SamplesConfig) *l7.Contents {
	if len(samples.Rules) == 0 {
		return nil
	}
	return &l7.Contents{
		Wanted: c.journal.Wanted, Body: samples.Limit, Head: headBytes, Calls: callsOfMessage, Left: int(samples.Bytes),
	}
}

// stop makes the reader read what is written by now, pass all of it on and end.
func (c *capture) stop() error {
	if c.stopped {
		return nil
	}
	c.stopped = true
	close(c.closing)
	err := c.ring.Flush()
	if err != nil {
		err = errors.Join(fmt.Errorf("reading the last records of connections: %w", err), c.ring.Close())
	}
	c.ended.Wait()
	return err
}

// close ends the reader and frees the ring.
func (c *capture) close() error { return errors.Join(c.stop(), c.ring.Close(), c.refused.close()) }

// run reads in rounds until it is stopped. Errors are counted and returned by the next Drain; then it continues.
func (c *capture) run() {
	for {
		switch err := c.read(); {
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
		if c.clock-c.swept >= uint64(c.quiet) {
			c.swept = c.clock
			c.sweep(c.clock)
		}
		c.rounds.Add(1)
	}
}

// finish passes on what waits to be in order: nothing comes before it any more.
func (c *capture) finish() {
	if err := c.handOver(func(_ uint64, record func(*segment, []byte)) { c.waiting.takeUntil(math.MaxUint64, record) }); err != nil {
		c.ring.fail(err)
	}
	c.giveUpAll()
}

// read reads what is written within an interval and passes on what is in order.
func (c *capture) read() error {
	began, _, err := kernel.Monotonic()
	if err != nil {
		return err
	}
	var failed error
	err = c.ring.read(time.Now().Add(c.interval), func(raw []byte) {
		c.waiting.add(raw)
		if c.waiting.size() > c.mostWaiting {
			// Out of order is better than without a bound: TCP's positions show what comes late.
			failed = errors.Join(failed, c.handOver(c.waiting.takeUntil))
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	patience := time.Duration(c.patience.Load())
	if err := c.handOver(func(now uint64, record func(*segment, []byte)) { c.waiting.take(now, patience, record) }); err != nil {
		return err
	}
	// However long this thread was not scheduled meanwhile, what was written before is recorded.
	c.clock = max(c.clock, uint64(began-min(began, patience.Nanoseconds())))
	return nil
}

// handOver records the segments that take passes on, by the current time.
func (c *capture) handOver(take func(now uint64, record func(*segment, []byte))) error {
	now, wall, err := kernel.Monotonic()
	if err != nil {
		return err
	}
	c.wall = wall
	c.charge(func() { take(uint64(now), c.record) })
	return nil
}

// roles are those of the processes that connected and accepted.
var roles = map[bindings.NetworkNetworkRole]l7.Role{
	bindings.NetworkNetworkRoleNETWORK_CLIENT: l7.RoleClient, bindings.NetworkNetworkRoleNETWORK_SERVER: l7.RoleServer,
}

// record takes a record of the ring buffer.
func (c *capture) record(p *segment, data []byte) {
	switch bindings.NetworkNetworkSegmentKind(p.Kind) {
	case bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_UNSEEN:
		c.unseen.see(opaqueKey{subject: c.connectionOf(p).Subject})
	case bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_TLS_BEGINS:
		c.beginTLS(p)
	case bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_UNPARSED:
		c.leaveOut(p)
	case bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_CLOSED, bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_ENDING:
		c.noteLeft(p, data)
		id := c.idOf(p)
		c.end(id, c.streams[id], p)
	case bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_READ, bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_WRITE,
		bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_REQUEST:
		c.noteLeft(p, data)
		c.carry(p, data)
	}
}

// noteLeft calls Config.left, if it is set.
func (c *capture) noteLeft(p *segment, data []byte) {
	if c.left != nil {
		c.left(c.connectionOf(p).Subject.PID, p.Length, len(data))
	}
}

// carry takes what a connection has carried: a transfer, or a skipped request.
func (c *capture) carry(p *segment, data []byte) {
	id := c.idOf(p)
	s := c.streams[id]
	if s == nil {
		s = c.open(id, p)
	}
	s.last = p.Ended
	if s.connection == (requests.Connection{}) || s.series != p.Series || s.generation != p.Generation {
		s.series, s.generation = p.Series, p.Generation
		s.connection = c.connectionOf(p)
		c.carried.note(p.Series, p.Generation, p.Protocol&^uint8(bindings.NetworkNetworkProtocolNETWORK_TLS))
	}
	switch {
	case bindings.NetworkNetworkSegmentKind(p.Kind) == bindings.NetworkNetworkSegmentKindNETWORK_SEGMENT_REQUEST:
		c.skip(id, s, p, data)
	case p.Length > 0:
		c.feed(id, s, p, data)
	}
	if c.connected > c.mostConnected {
		c.relieve()
	}
}

// open begins to follow a connection.
func (c *capture) open(id streamID, p *segment) *stream {
	s := &stream{conn: l7.NewConn(c.protocols, c.transport(p), roles[bindings.NetworkNetworkRole(p.Role)], &c.sink)}
	s.datagrams = c.transport(p) == l7.UDP
	if s.datagrams || c.isUnix(p) {
		if before, known := c.unix[id.sock]; known { // the record of its end was lost
			id := streamID{id.sock, before}
			c.forget(id, c.streams[id])
		}
		c.unix[id.sock] = id.stream
	}
	s.late = c.late.open[id]
	c.streams[id] = s
	c.measure(s)
	return s
}

// idOf returns the connection of a segment.
func (c *capture) idOf(p *segment) streamID {
	stream := p.Stream
	if stream == 0 {
		stream = c.unix[p.Sock]
	}
	return streamID{p.Sock, stream}
}

// feed passes a segment to the parser of its connection.
func (c *capture) feed(id streamID, s *stream, p *segment, data []byte) {
	c.current = s
	lost, lostAt := s.lost(p)
	s.conn.Feed(l7.Piece{
		Direction: l7.Direction(p.Kind), Began: int64(p.Began), Ended: int64(p.Ended),
		Length: int64(p.Length), Data: data, Lost: lost, LostAt: lostAt, Position: positionOf(p), Wire: wireOf(p),
	})
	c.attribute(s)
	if s.datagrams && s.settled(data) && s.conn.Idle() {
		c.forget(id, s)
		return
	}
	c.review(id, s)
}

// review refuses a connection that cannot be parsed, and measures it from time to time.
func (c *capture) review(id streamID, s *stream) {
	if s.conn.Astray() {
		c.refuse(id)
	}
	if s.fed%measureEvery == 0 {
		c.measure(s)
	}
	s.fed++
}

// refuse makes the programs inspect a connection anew: it cannot be parsed, as after an upgrade to another protocol, or if it only resembled
// a known one. They record its end then. Until they do it is refused with each segment: another connection may have taken its slot.
func (c *capture) refuse(id streamID) {
	if n := uint32(len(c.refused.items)); n > 0 {
		atomic.StoreUint64(&c.refused.items[id.stream%n], uint64(id.stream))
	}
}

// exchange takes a request and its response from the parser.
func (c *capture) exchange(e *l7.Exchange) {
	if c.relieving && e.Outcome != l7.Complete { // how it will end is unknown
		c.unfinished++
		return
	}
	if c.lateExchange(e) {
		return
	}
	conn := c.current.connection
	if conn.Subject == (observe.SubjectKey{}) {
		if !c.onlyAnswered {
			c.totals.AddUnattributed(e)
		}
		return
	}
	if c.exchanged != nil {
		c.exchanged(conn.Subject.PID, e)
	}
	if c.answered != nil {
		c.answer(conn.Subject, e)
	}
	if c.onlyAnswered {
		return
	}
	if route, counted := c.totals.Add(conn, e); counted && c.journal != nil {
		c.journal.Add(conn, e, route, c.wall)
	}
}

// takeTop returns the requests that took longest since the last call.
func (c *capture) takeTop() map[requests.Reason][]*requests.Request {
	if c.journal == nil {
		return nil
	}
	return c.journal.TakeTop()
}

// waitingBytes returns the memory of requests that wait to be exported one by one.
func (c *capture) waitingBytes() uint64 {
	if c.journal == nil {
		return 0
	}
	return c.journal.Bytes()
}

// forget passes on what is left of a connection whose end was not seen, and removes it.
func (c *capture) forget(id streamID, s *stream) {
	c.remove(id, s)
	c.forgetLate(id, s.connection.Subject)
}

// remove passes on what is left of a connection, and removes it.
func (c *capture) remove(id streamID, s *stream) {
	c.current = s
	s.conn.Close()
	c.attribute(s)
	delete(c.streams, id)
	if c.unix[id.sock] == id.stream {
		delete(c.unix, id.sock)
	}
	c.connected -= s.held
}

// sweep forgets connections that have been quiet for long, and reports messages whose end will not be captured. now is the time, of
// CLOCK_MONOTONIC in ns, until which all transfers are recorded: it advances without transfers, too.
func (c *capture) sweep(now uint64) {
	for id, s := range c.streams {
		if now-min(now, s.last) > uint64(c.mayBeQuiet(s)) {
			c.forget(id, s)
			continue
		}
		c.current = s
		c.giveUp(s, now)
		s.conn.Expire(int64(now) - endsUnseen.Nanoseconds())
		c.attribute(s)
		c.measure(s)
	}
	c.sweepLate(now)
	c.held.Store(c.connected + uint64(c.waiting.held()))
}
