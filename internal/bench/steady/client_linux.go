// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
)

const (
	// maxAnswer bounds an answer, its head included.
	maxAnswer = 16 << 10
	// answerTimeout is how long an answer is waited for.
	answerTimeout = time.Minute
	// processors is how many threads may run Go code: the one that keeps the rate sleeps in the kernel, which must not
	// keep the others from reading answers where the client has one CPU.
	processors = 4
)

// client asks at a constant rate.
type client struct {
	address     string
	secure      bool
	request     []byte
	rate        int // per second; 0: as fast as it is answered
	connections int
	length      time.Duration
}

func (c *client) to(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("-url: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Port() == "" {
		return fmt.Errorf("-url %q: it must be http or https, with a port", text)
	}
	if c.rate < 0 || c.connections < 1 || c.length <= 0 {
		return errors.New("-connections and -for must be positive, -rate not negative")
	}
	c.address, c.secure = u.Host, u.Scheme == "https"
	c.request = []byte("GET " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\n\r\n")
	return nil
}

// run asks and returns what came of it. Requests wait for a connection when none is free: the time that they wait counts.
func (c *client) run() (workload.Asked, error) {
	runtime.GOMAXPROCS(processors)
	all := make([]*connection, c.connections)
	for i := range all {
		var err error
		if all[i], err = c.dial(); err != nil {
			return workload.Asked{}, err
		}
		defer all[i].conn.Close() //nolint:errcheck // all was read
	}
	began := time.Now()
	var asking sync.WaitGroup
	if c.rate == 0 {
		for _, one := range all {
			asking.Go(func() { one.askOn(began.Add(c.length), c.request) })
		}
		asking.Wait()
		return sum(all, time.Since(began)), nil
	}
	due := make(chan time.Time, c.total()) // it never waits for who asks
	for _, one := range all {
		asking.Go(func() { one.ask(due, c.request) })
	}
	err := c.pace(due)
	close(due)
	asking.Wait()
	return sum(all, time.Since(began)), err
}

func (c *client) total() int { return int(float64(c.rate) * c.length.Seconds()) }

// pace says when a request is due. A thread of its own sleeps in the kernel: timers of the runtime are as exact as a
// millisecond.
func (c *client) pace(due chan<- time.Time) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("asking for exact timers: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("reading CLOCK_MONOTONIC: %w", err)
	}
	for i := range c.total() {
		at := unix.NsecToTimespec(now.Nano() + int64(time.Second)*int64(i)/int64(c.rate))
		for {
			err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil)
			if err == nil {
				break
			}
			if !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("waiting for the next request: %w", err)
			}
		}
		due <- time.Now()
	}
	return nil
}

// connection is kept alive.
type connection struct {
	conn   net.Conn
	answer [maxAnswer]byte
	took   []time.Duration // from when a request was due until all of its answer was read
	failed uint64
	err    error // of the first that failed
}

func (c *client) dial() (*connection, error) {
	conn, err := net.DialTimeout("tcp", c.address, answerTimeout)
	if err != nil {
		return nil, err
	}
	if !c.secure {
		return &connection{conn: conn}, nil
	}
	// The server belongs to this benchmark, with a self-made certificate.
	secured := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	if err := secured.Handshake(); err != nil {
		return nil, errors.Join(fmt.Errorf("shaking hands: %w", err), conn.Close())
	}
	return &connection{conn: secured}, nil
}

// ask asks for each that is due, until one fails: then nothing more can be said of the connection's answers.
func (c *connection) ask(due <-chan time.Time, request []byte) {
	for at := range due {
		c.timed(at, request)
	}
}

// askOn asks again as soon as it is answered.
func (c *connection) askOn(until time.Time, request []byte) {
	for at := time.Now(); at.Before(until) && c.err == nil; at = time.Now() {
		c.timed(at, request)
	}
}

func (c *connection) timed(at time.Time, request []byte) {
	if c.err == nil {
		c.err = c.once(request)
	}
	if c.err != nil {
		c.failed++
		return
	}
	c.took = append(c.took, time.Since(at))
}

// headEnd ends a message's head.
var headEnd = []byte("\r\n\r\n")

// once asks and reads the answer.
func (c *connection) once(request []byte) error {
	if err := c.conn.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	have, want := 0, 0
	for want == 0 || have < want {
		n, err := c.conn.Read(c.answer[have:])
		if err != nil {
			return err
		}
		have += n
		if head := bytes.Index(c.answer[:have], headEnd); want == 0 && head >= 0 {
			length, err := contentLength(c.answer[:head+2])
			if err != nil {
				return err
			}
			want = head + len(headEnd) + length
		}
	}
	if have != want || want > maxAnswer {
		return fmt.Errorf("an answer has %d bytes, its head says %d", have, want)
	}
	return nil
}

var lengthName = []byte("content-length:")

// contentLength reads the head of an answer of status 200.
func contentLength(head []byte) (int, error) {
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
		return 0, fmt.Errorf("an answer begins with %.40q", head)
	}
	for line := range bytes.Lines(head) {
		if len(line) > len(lengthName) && bytes.EqualFold(line[:len(lengthName)], lengthName) {
			return strconv.Atoi(string(bytes.TrimSpace(line[len(lengthName):])))
		}
	}
	return 0, errors.New("an answer does not say its length")
}

func sum(all []*connection, elapsed time.Duration) workload.Asked {
	asked := workload.Asked{Elapsed: elapsed}
	var took []time.Duration
	for _, c := range all {
		asked.Failed += c.failed
		took = append(took, c.took...)
		if c.err != nil {
			asked.Why = c.err.Error()
		}
	}
	slices.Sort(took)
	asked.Answered = uint64(len(took))
	asked.Took = workload.QuantilesOf(took)
	return asked
}
