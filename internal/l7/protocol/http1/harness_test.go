// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http1"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/rfc9110"
)

// Fields whose values the tests ask for.
var (
	requestFields  = []string{"traceparent", "Content-Type", "User-Agent"}
	responseFields = []string{"content-type", "Content-Length"}
)

// reported is an exchange as it was reported, copied.
type reported struct {
	Role                             string
	Request, Response                l7.Side
	Outcome                          l7.Outcome
	ErrorType                        string
	Method, Original, Target, Scheme string
	Host, Path, Query, Version       string
	Status                           int
	Upgrade                          string
	RequestFields, ResponseFields    []string
}

const absent = "(absent)"

func copied(values [][]byte) (texts []string) {
	for _, v := range values {
		if v == nil {
			texts = append(texts, absent)
		} else {
			texts = append(texts, string(v))
		}
	}
	return texts
}

func reportOf(e *l7.Exchange) reported {
	h := httpexchange.Of(e)
	original := string(h.OriginalMethod)
	if h.Method != rfc9110.OtherMethod {
		original = h.Method
	}
	return reported{
		Role: e.Role.String(), Request: e.Request, Response: e.Response, Outcome: e.Outcome, ErrorType: e.ErrorType,
		Method: h.Method, Original: original, Target: string(h.Target), Scheme: string(h.Scheme), Host: string(h.Host),
		Path: string(h.Path), Query: string(h.Query), Version: h.Version, Status: h.Status, Upgrade: string(h.Upgrade),
		RequestFields: copied(h.RequestFields), ResponseFields: copied(h.ResponseFields),
	}
}

// listener is a connection and all that it reported.
type listener struct {
	*l7.Conn
	sink     *l7.Sink
	stats    l7.Stats
	now      int64
	reported []reported
	ended    []int64 // of each that was reported
}

func listen() *listener { return listenWithin(l7.DefaultLimits()) }

func listenWithin(limits l7.Limits) *listener {
	l := &listener{}
	l.sink = &l7.Sink{Limits: limits, Stats: &l.stats, Exchange: func(e *l7.Exchange) { l.reported, l.ended = append(l.reported, reportOf(e)), append(l.ended, e.Ended) }}
	l.Conn = l7.NewConn([]l7.Protocol{http1.New(requestFields, responseFields)}, l7.TCP, l7.RoleUnknown, l.sink)
	return l
}

// whole is a piece of which all bytes are known; its call takes 5 ns before now.
func whole(d l7.Direction, now int64, text string) l7.Piece {
	return l7.Piece{Direction: d, Began: now - 5, Ended: now, Length: int64(len(text)), Data: []byte(text)}
}

// script is what a server reads and writes, one piece each 10 ns from 10 on.
type script []any

type (
	reads  string
	writes string
	// readsMore and writesMore are bytes of which only the number is known.
	readsMore  int64
	writesMore int64
	// pause is a time without pieces, in ns.
	pause int64
	// cutRead and cutWrite are a piece of which the text is the beginning and so many bytes more are not known.
	cutRead struct {
		text string
		more int64
	}
	cutWrite struct {
		text string
		more int64
	}
	// lostRead and lostWrite are bytes that are missing before the next piece of the direction.
	lostRead  struct{ bytes, at int64 }
	lostWrite struct{ bytes, at int64 }
)

// play feeds the script as a server's or, with flip, as a client's.
func (l *listener) play(t *testing.T, s script, flip bool) {
	t.Helper()
	lost := map[l7.Direction]lostRead{}
	feed := func(d l7.Direction, text string, more int64) {
		l.now += 10
		if flip {
			d = d.Other()
		}
		p := whole(d, l.now, text)
		p.Length += more
		p.Lost, p.LostAt = lost[d].bytes, lost[d].at
		delete(lost, d)
		l.Feed(p)
	}
	for _, step := range s {
		switch s := step.(type) {
		case reads:
			feed(l7.Read, string(s), 0)
		case writes:
			feed(l7.Write, string(s), 0)
		case readsMore:
			feed(l7.Read, "", int64(s))
		case writesMore:
			feed(l7.Write, "", int64(s))
		case cutRead:
			feed(l7.Read, s.text, s.more)
		case cutWrite:
			feed(l7.Write, s.text, s.more)
		case lostRead:
			lost[direction(l7.Read, flip)] = s
		case lostWrite:
			lost[direction(l7.Write, flip)] = lostRead(s)
		case pause:
			l.now += int64(s)
		default:
			require.Failf(t, "unknown step", "%T", step)
		}
	}
}

func direction(d l7.Direction, flip bool) l7.Direction {
	if flip {
		return d.Other()
	}
	return d
}

// brief is an exchange in one line.
func brief(x reported) []any {
	return []any{x.Method, x.Target, x.Status, x.Request.Body, x.Response.Body, x.Outcome}
}

// briefs compares what was reported in short.
func (l *listener) requireBriefs(t *testing.T, want ...[]any) {
	t.Helper()
	var got [][]any
	for _, x := range l.reported {
		got = append(got, brief(x))
	}
	for _, w := range want {
		for i := range w {
			if n, is := w[i].(int); is && i > 2 {
				w[i] = int64(n)
			}
		}
	}
	require.Equal(t, want, got)
}
