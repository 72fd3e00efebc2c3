// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http1"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

const (
	// lookInterval is how often the ring buffer is read, unless it is full before.
	lookInterval = 50 * time.Millisecond
	// sweepInterval is how often connections are looked for that are quiet.
	sweepInterval = 10 * time.Second
	// quietFor is how long a connection may be quiet until it is forgotten: the end of one
	// may have been lost.
	quietFor = 5 * time.Minute
	// datagramsQuietFor is the same of sockets for datagrams, whose end nobody tells; by
	// then who asked has given up.
	datagramsQuietFor = 10 * time.Second
	// maxStreams bounds the connections that are followed.
	maxStreams = 65536
)

type piece = bindings.NetworkNetworkPiece

// pieceBytes is the head of a record, before the bytes that it carries.
const pieceBytes = int(unsafe.Sizeof(piece{}))

// capture follows what connections carry.
type capture struct {
	ring   *ring
	places *shared[place]
	totals *requests.Totals
	// journal is nil where no request is told by itself.
	journal *requests.Journal
	// wall converts CLOCK_MONOTONIC, in ns, as of the last look.
	wall func(ns int64) time.Time

	protocols []l7.Protocol
	sink      l7.Sink
	stats     l7.Stats
	streams   map[streamID]*stream
	waiting   waiting
	current   *stream // whose piece is being parsed
	swept     time.Time

	crowded uint64 // pieces of connections that were too many
	// told is what was counted until the last look, held the memory of connections as of
	// the last sweep.
	told []atomic.Uint64
	// looks is how often what was written was handed over.
	looks   atomic.Uint64
	held    atomic.Uint64
	closing chan struct{}
	ended   sync.WaitGroup
}

// captureReasons are why requests are told incompletely, or not.
var captureReasons = [...]struct {
	name string
	told bool
	of   func(*capture) uint64
}{
	{"buffer_unread", false, func(c *capture) uint64 { return c.ring.failures.Load() }},
	{"connections_full", false, func(c *capture) uint64 { return c.crowded }},
	{"request_invalid", false, func(c *capture) uint64 { return c.stats.Invalid }},
	{"request_pipelined", false, func(c *capture) uint64 { return c.stats.Unkept }},
	{"request_unpaired", true, func(c *capture) uint64 { return c.stats.Unpaired }},
	{"request_cut", true, func(c *capture) uint64 { return c.stats.Cut }},
	{"request_series_full", true, func(c *capture) uint64 {
		_, overflown := c.totals.Exchanges()
		return overflown
	}},
	{"request_logs_full", false, func(c *capture) uint64 {
		if c.journal == nil {
			return 0
		}
		return c.journal.Lost()
	}},
}

// losses are what was not told of requests, or not as what it was.
func (c *capture) losses() []observe.Loss {
	list := make([]observe.Loss, len(captureReasons))
	for i, reason := range captureReasons {
		list[i] = observe.Loss{Probe: string(observe.Network), Reason: reason.name, Count: c.told[i].Load(), Told: reason.told}
	}
	return list
}

// streamID tells a socket from all others, also from later ones at its address.
type streamID struct {
	sock   uint64
	stream uint32
}

// stream is a connection that is followed.
type stream struct {
	conn   *l7.Conn
	series uint32
	// generation is that of the series which whom was read from.
	generation uint32
	whom       requests.Whom
	last       uint64 // CLOCK_MONOTONIC, ns
	// quietFor is how long it may be quiet until it is forgotten.
	quietFor time.Duration
	// datagrams says that it is no stream in truth, unanswered how many more of them were
	// sent than received.
	datagrams  bool
	unanswered int
	// next is where TCP is before the next piece of each direction, once that is known.
	next  [2]uint32
	known [2]bool
}

// startCapture begins to read what programs tell of connections.
func startCapture(config Config, coll *ebpf.Collection, places *shared[place]) (*capture, error) {
	ring, err := openRing(coll)
	if err != nil {
		return nil, err
	}
	c := newCapture(config, ring, places)
	c.ended.Go(c.run)
	return c, nil
}

func newCapture(config Config, ring *ring, places *shared[place]) *capture {
	c := &capture{
		ring: ring, places: places,
		totals: requests.NewTotals(), streams: map[streamID]*stream{}, swept: time.Now(),
		told: make([]atomic.Uint64, len(captureReasons)), closing: make(chan struct{}),
	}
	var fields []string
	if config.Journal.Tells() {
		c.journal = requests.NewJournal(config.Journal)
		fields = requests.Fields()
	}
	if config.looksFor(HTTP) {
		c.protocols = append(c.protocols, http1.New(fields, nil))
	}
	if config.looksFor(DNS) {
		c.protocols = append(c.protocols, dns.Protocol{})
	}
	c.sink = l7.Sink{Limits: l7.DefaultLimits(), Stats: &c.stats, Exchange: c.exchange}
	return c
}

// close ends the reader and waits for it.
func (c *capture) close() error {
	close(c.closing)
	err := c.ring.Close()
	c.ended.Wait()
	return err
}

// run looks until the ring is closed. What goes wrong is counted and told with the
// next Drain; then it looks again.
func (c *capture) run() {
	for {
		switch err := c.look(); {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil:
			c.ring.fail(err)
			select {
			case <-c.closing:
				return
			case <-time.After(lookInterval):
			}
		}
		for i, reason := range captureReasons {
			c.told[i].Store(reason.of(c))
		}
		if now := time.Now(); now.Sub(c.swept) >= sweepInterval {
			c.swept = now
			c.sweep()
		}
		c.looks.Add(1)
	}
}

// look takes what is written within an interval and hands over what is in order.
func (c *capture) look() error {
	if err := c.ring.look(time.Now().Add(lookInterval), c.waiting.add); err != nil {
		return err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("reading CLOCK_MONOTONIC: %w", err)
	}
	zero := time.Now().Add(-time.Duration(now.Nano()))
	c.wall = func(ns int64) time.Time { return zero.Add(time.Duration(ns)) }
	c.waiting.take(uint64(now.Nano()), c.record)
	return nil
}

// record takes what one transfer left.
func (c *capture) record(p *piece, data []byte) {
	id := streamID{p.Sock, p.Stream}
	s := c.streams[id]
	if bindings.NetworkNetworkPieceKind(p.Kind) == bindings.NetworkNetworkPieceKindNETWORK_PIECE_CLOSED {
		if s != nil {
			c.forget(id, s)
		}
		return
	}
	if s == nil {
		if len(c.streams) >= maxStreams {
			c.crowded++
			return
		}
		s = &stream{conn: l7.NewConn(c.protocols, c.transport(p), &c.sink), quietFor: quietFor}
		if c.transport(p) == l7.UDP {
			s.datagrams, s.quietFor = true, datagramsQuietFor
		}
		c.streams[id] = s
	}
	s.last = p.Ended
	if s.whom == (requests.Whom{}) || s.series != p.Series || s.generation != p.Generation {
		s.series, s.generation = p.Series, p.Generation
		s.whom = c.whom(p)
	}
	if p.Length == 0 || p.Kind > uint8(l7.Write) {
		return
	}
	c.current = s
	s.conn.Feed(l7.Piece{
		Direction: l7.Direction(p.Kind), Began: int64(p.Began), Ended: int64(p.Ended),
		Length: int64(p.Length), Data: data, Lost: s.lost(p),
	})
	if s.datagrams && s.settled(p) {
		c.forget(id, s)
	}
}

// settled tells whether all that was asked by datagrams is answered: nothing is waited for
// then, and most sockets are used for one question.
func (s *stream) settled(p *piece) bool {
	if l7.Direction(p.Kind) == l7.Write {
		s.unanswered++
	} else {
		s.unanswered--
	}
	return s.unanswered <= 0
}

// lost says what is known of bytes that are missing before a piece: by the sequence
// numbers of TCP, else by what the programs could not write.
func (s *stream) lost(p *piece) int64 {
	if p.Position == 0 {
		if p.Lost != 0 {
			return l7.LostUnknown
		}
		return 0
	}
	missing, known := int32(p.Position-p.Length-s.next[p.Kind]), s.known[p.Kind]
	s.next[p.Kind], s.known[p.Kind] = p.Position, true
	switch {
	case !known || missing == 0:
		return 0
	case missing < 0: // two threads at once
		return l7.LostUnknown
	}
	return int64(missing)
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
	}
}

// exchange takes a request and its response.
func (c *capture) exchange(e *l7.Exchange) {
	whom := c.current.whom
	if whom.Subject == (observe.SubjectKey{}) {
		return
	}
	if route, counted := c.totals.Add(whom, e); counted && c.journal != nil && e.HTTP != nil {
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
}

// streamBytes is what a connection takes here beside what its parser holds.
const streamBytes = 256

// sweep forgets connections that have been quiet for long.
func (c *capture) sweep() {
	var newest, held uint64
	for _, s := range c.streams {
		newest = max(newest, s.last)
	}
	for id, s := range c.streams {
		if newest-s.last > uint64(s.quietFor) {
			c.forget(id, s)
			continue
		}
		held += streamBytes + uint64(s.conn.Held())
	}
	c.held.Store(held)
}
