// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
)

// reported is an exchange as it was reported, copied.
type reported struct {
	Role, ErrorType   string
	Request, Response l7.Side
	Outcome           l7.Outcome
	Names             []string
	Types             []uint16
	DNS               dns.Exchange // without its questions
}

type listener struct {
	*l7.Conn
	stats    l7.Stats
	reported []reported
}

func listen(transport l7.Transport) *listener {
	l := &listener{}
	limits := l7.DefaultLimits()
	limits.Streams, limits.Line = 8, 512
	sink := &l7.Sink{Limits: limits, Stats: &l.stats, Exchange: func(e *l7.Exchange) { l.reported = append(l.reported, reportOf(e)) }}
	l.Conn = l7.NewConn([]l7.Protocol{dns.Protocol{}}, transport, l7.RoleUnknown, sink)
	return l
}

func reportOf(e *l7.Exchange) reported {
	x := reported{Role: e.Role.String(), ErrorType: e.ErrorType, Request: e.Request, Response: e.Response, Outcome: e.Outcome, DNS: *e.Operation.(*dns.Exchange)}
	for _, q := range e.Operation.(*dns.Exchange).Questions {
		x.Names, x.Types = append(x.Names, string(q.Name)), append(x.Types, q.Type)
	}
	x.DNS.Questions = nil
	return x
}

func question(name string, kind dnsmessage.Type) dnsmessage.Question {
	return dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}
}

// pack makes a message with EDNS, if udpSize is not 0, and an address as the answer to each question if it is a response without error.
func pack(t testing.TB, h dnsmessage.Header, udpSize int, code dnsmessage.RCode, questions ...dnsmessage.Question) []byte {
	b := dnsmessage.NewBuilder(nil, h)
	b.EnableCompression()
	require.NoError(t, b.StartQuestions())
	for _, q := range questions {
		require.NoError(t, b.Question(q))
	}
	require.NoError(t, b.StartAnswers())
	if h.Response && code == dnsmessage.RCodeSuccess {
		for _, q := range questions {
			require.NoError(t, b.AResource(dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}, dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}))
		}
	}
	if udpSize > 0 {
		require.NoError(t, b.StartAdditionals())
		var options dnsmessage.ResourceHeader
		require.NoError(t, options.SetEDNS0(udpSize, code, false))
		require.NoError(t, b.OPTResource(options, dnsmessage.OPTResource{}))
	}
	message, err := b.Finish()
	require.NoError(t, err)
	return message
}

func query(t testing.TB, id uint16, udpSize int, questions ...dnsmessage.Question) []byte {
	return pack(t, dnsmessage.Header{ID: id, RecursionDesired: true}, udpSize, 0, questions...)
}

func response(t testing.TB, id uint16, udpSize int, code dnsmessage.RCode, questions ...dnsmessage.Question) []byte {
	return pack(t, dnsmessage.Header{ID: id, Response: true, RCode: code & 15}, udpSize, code, questions...)
}

// piece takes 5 ns before now.
func piece(d l7.Direction, now int64, data []byte) l7.Piece {
	return l7.Piece{Direction: d, Began: now - 5, Ended: now, Length: int64(len(data)), Data: data}
}

func TestDatagrams(t *testing.T) {
	l := listen(l7.UDP)
	a, aaaa := question("shop.example.", dnsmessage.TypeA), question("shop.example.", dnsmessage.TypeAAAA)
	q, r := query(t, 7, 1232, a, aaaa), response(t, 7, 1232, dnsmessage.RCodeSuccess, a, aaaa)
	l.Feed(piece(l7.Write, 10, q))
	l.Feed(piece(l7.Read, 30, r))
	require.Equal(t, []reported{{
		Role:     "client",
		Request:  l7.Side{Known: true, Ended: true, First: 5, Last: 10, Body: int64(len(q)), Whole: int64(len(q))},
		Response: l7.Side{Known: true, Ended: true, First: 30, Last: 30, Body: int64(len(r)), Whole: int64(len(r))},
		Names:    []string{"shop.example.", "shop.example."},
		Types:    []uint16{1, 28},
		DNS:      dns.Exchange{ID: 7, QuestionCount: 2, Answers: 2, UDPSize: 1232},
	}}, l.reported)
}

// TestErrors checks that codes are reported by name, those that only EDNS has included.
func TestErrors(t *testing.T) {
	for code, name := range map[dnsmessage.RCode]string{1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 5: "REFUSED", 16: "BADVERS", 23: "BADCOOKIE", 300: "RCODE300"} {
		l := listen(l7.UDP)
		q := question("no.example.", dnsmessage.TypeA)
		l.Feed(piece(l7.Read, 10, query(t, 7, 512, q)))
		l.Feed(piece(l7.Write, 20, response(t, 7, 512, code, q)))
		require.Len(t, l.reported, 1)
		require.Equal(t, []any{"server", name, int(code)}, []any{l.reported[0].Role, l.reported[0].ErrorType, l.reported[0].DNS.ResponseCode})
	}
}

// TestResponsesFindTheirQueries holds by number and question, in any order.
func TestResponsesFindTheirQueries(t *testing.T) {
	l := listen(l7.UDP)
	one, two := question("one.example.", dnsmessage.TypeA), question("two.example.", dnsmessage.TypeA)
	l.Feed(piece(l7.Write, 10, query(t, 1, 0, one)))
	l.Feed(piece(l7.Write, 20, query(t, 2, 0, two)))
	l.Feed(piece(l7.Write, 30, query(t, 1, 0, one))) // repeated
	l.Feed(piece(l7.Write, 40, query(t, 3, 0, two)))
	l.Feed(piece(l7.Read, 50, response(t, 2, 0, 0, two)))
	l.Feed(piece(l7.Read, 60, response(t, 1, 0, 0, two))) // the number of another question
	l.Feed(piece(l7.Read, 70, response(t, 1, 0, 0, one)))
	l.Expire(100)
	var got [][]any
	for _, x := range l.reported {
		got = append(got, []any{x.DNS.ID, x.Names[0], x.Request.First, x.Response.Last, x.Outcome})
	}
	require.Equal(t, [][]any{
		{uint16(2), "two.example.", int64(15), int64(50), l7.Complete},
		{uint16(1), "two.example.", int64(0), int64(60), l7.Complete},
		{uint16(1), "one.example.", int64(5), int64(70), l7.Complete},
		{uint16(3), "two.example.", int64(35), int64(0), l7.Unanswered},
	}, got)
	require.Equal(t, l7.ErrorNoResponse, l.reported[3].ErrorType)
	require.Equal(t, uint64(1), l.stats.Unpaired)
}

// TestCaseTellsNoNamesApart checks that a response is its query's whatever the case of its name, of ASCII's letters alone, that a query that is
// repeated so is one, and that names are reported in lower case.
func TestCaseTellsNoNamesApart(t *testing.T) {
	l := listen(l7.UDP)
	l.Feed(piece(l7.Write, 10, query(t, 1, 0, question("WwW.ExAmple.cOm@[Z.", dnsmessage.TypeA))))
	l.Feed(piece(l7.Write, 20, query(t, 1, 0, question("wWw.example.com@[z.", dnsmessage.TypeA)))) // repeated
	l.Feed(piece(l7.Read, 30, response(t, 1, 0, 0, question("www.example.com@{z.", dnsmessage.TypeA))))
	l.Feed(piece(l7.Read, 40, response(t, 1, 0, 0, question("www.EXAMPLE.com@[z.", dnsmessage.TypeA))))
	l.Feed(piece(l7.Write, 50, query(t, 2, 0, question("\xc9.", dnsmessage.TypeA))))
	l.Feed(piece(l7.Read, 60, response(t, 2, 0, 0, question("\xe9.", dnsmessage.TypeA))))
	l.Close()
	var got [][]any
	for _, x := range l.reported {
		got = append(got, []any{x.Names[0], x.Request.Last, x.Response.Last})
	}
	require.Equal(t, [][]any{
		{"www.example.com@{z.", int64(0), int64(30)},
		{"www.example.com@[z.", int64(10), int64(40)},
		{`\233.`, int64(0), int64(60)},
		{`\201.`, int64(50), int64(0)},
	}, got)
}

// TestResponsesWithoutAQuestion checks that a response of a header alone is that of the query with its number, and that one of no query is
// neither reported nor counted, as those of other protocols with messages like DNS's are.
func TestResponsesWithoutAQuestion(t *testing.T) {
	l := listen(l7.UDP)
	alone := func(id uint16, code dnsmessage.RCode) []byte {
		return pack(t, dnsmessage.Header{ID: id, Response: true, RCode: code}, 0, code)
	}
	require.Len(t, alone(1, 1), 12)
	l.Feed(piece(l7.Write, 10, query(t, 1, 0, question("one.", dnsmessage.TypeA))))
	l.Feed(piece(l7.Write, 20, query(t, 2, 0, question("two.", dnsmessage.TypeA))))
	l.Feed(piece(l7.Read, 30, alone(3, 1)))
	require.Empty(t, l.reported)
	l.Feed(piece(l7.Read, 40, alone(2, 4)))
	l.Feed(piece(l7.Read, 50, alone(1, 1)))
	l.Feed(piece(l7.Read, 60, alone(1, 1)))
	var got [][]any
	for _, x := range l.reported {
		got = append(got, []any{x.Names[0], x.ErrorType, x.Request.Last, x.Response.Last})
	}
	require.Equal(t, [][]any{{"two.", "NOTIMP", int64(20), int64(40)}, {"one.", "FORMERR", int64(10), int64(50)}}, got)
	require.Zero(t, l.stats.Unpaired)
	require.True(t, l.Idle())
}

// TestQueriesThatServersHideAreNotMissed checks that a response is reported and not counted as one without its query where a server has written it,
// which has read the length and the query by themselves.
func TestQueriesThatServersHideAreNotMissed(t *testing.T) {
	q := question("x.example.", dnsmessage.TypeA)
	for d, unpaired := range map[l7.Direction]uint64{l7.Write: 0, l7.Read: 1} {
		l := listen(l7.TCP)
		l.Feed(piece(d, 10, prefixed(response(t, 1, 0, 0, q))))
		require.Len(t, l.reported, 1)
		require.Equal(t, unpaired, l.stats.Unpaired)
	}
}

// TestQueriesThatWaitAreBounded checks that of those over the bound none is reported to have had no answer, since it may still come.
func TestQueriesThatWaitAreBounded(t *testing.T) {
	l := listen(l7.UDP)
	q := question("x.example.", dnsmessage.TypeA)
	for id := range uint16(100) {
		l.Feed(piece(l7.Write, int64(10+id), query(t, id, 0, q)))
		require.Less(t, l.Held(), 16<<10)
	}
	require.Empty(t, l.reported)
	require.Equal(t, uint64(92), l.stats.Unkept)
	for id := range uint16(100) {
		l.Feed(piece(l7.Read, int64(200+id), response(t, id, 0, 0, q)))
	}
	require.Len(t, l.reported, 100)
	for _, x := range l.reported {
		require.Equal(t, []any{l7.Complete, "", x.DNS.ID >= 92}, []any{x.Outcome, x.ErrorType, x.Request.Known}, x.DNS.ID)
	}
	require.Equal(t, uint64(92), l.stats.Unpaired)
}

// TestQueriesOverTheBoundMayBeUnanswered checks that those are reported that have waited for longer than resolvers do.
func TestQueriesOverTheBoundMayBeUnanswered(t *testing.T) {
	const interval = 1e9
	l := listen(l7.UDP)
	for id := range uint16(10) {
		l.Feed(piece(l7.Write, int64(id)*interval, query(t, id, 0, question("x.example.", dnsmessage.TypeA))))
	}
	require.Len(t, l.reported, 2)
	for i, x := range l.reported {
		require.Equal(t, []any{uint16(i), l7.Unanswered, l7.ErrorNoResponse}, []any{x.DNS.ID, x.Outcome, x.ErrorType})
	}
	require.Zero(t, l.stats.Unkept)
}

func prefixed(messages ...[]byte) (stream []byte) {
	for _, m := range messages {
		stream = append(binary.BigEndian.AppendUint16(stream, uint16(len(m))), m...)
	}
	return stream
}

// TestStreamsInRandomPieces is TCP: lengths before messages, read one by one or all at once, queries before their responses.
func TestStreamsInRandomPieces(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		l := listen(l7.TCP)
		now := int64(0)
		n := 1 + rnd.IntN(6)
		var want []uint16
		var queries, responses [][]byte
		for i := range n {
			q := question("a-long-name-of-a-host.shop.example.", dnsmessage.Type(1+i))
			queries, responses = append(queries, query(t, uint16(i), 1232, q)), append(responses, response(t, uint16(i), 1232, 3, q))
		}
		rnd.Shuffle(n, func(i, j int) { responses[i], responses[j] = responses[j], responses[i] })
		for _, r := range responses {
			want = append(want, binary.BigEndian.Uint16(r))
		}
		for d, stream := range [][]byte{prefixed(queries...), prefixed(responses...)} {
			for len(stream) > 0 {
				now += 10
				size := 1 + rnd.IntN(min(len(stream), 150))
				l.Feed(piece(l7.Direction(d), now, bytes.Clone(stream[:size])))
				stream = stream[size:]
			}
		}
		var got []uint16
		for _, x := range l.reported {
			require.Equal(t, []any{"server", "NXDOMAIN", l7.Complete, []string{"a-long-name-of-a-host.shop.example."}},
				[]any{x.Role, x.ErrorType, x.Outcome, x.Names}, "seed %d", seed)
			require.Equal(t, x.Request.Body+2, x.Request.Whole)
			got = append(got, x.DNS.ID)
		}
		require.Equal(t, want, got, "seed %d", seed)
	}
}

// TestACutMessageIsToldAsFarAsItIsKnown checks that what follows it is right again.
func TestACutMessageIsToldAsFarAsItIsKnown(t *testing.T) {
	l := listen(l7.TCP)
	q := question("x.example.", dnsmessage.TypeTXT)
	l.Feed(piece(l7.Write, 10, prefixed(query(t, 1, 0, q))))
	r := piece(l7.Read, 20, prefixed(response(t, 1, 0, 0, q)))
	r.Data = r.Data[:len(r.Data)-10]
	r.Length += 5
	binary.BigEndian.PutUint16(r.Data, uint16(r.Length)+95) // the last 100 bytes come later
	l.Feed(r)
	l.Feed(l7.Piece{Direction: l7.Read, Ended: 25, Length: 97})
	l.Feed(piece(l7.Write, 30, prefixed(query(t, 2, 0, q))))
	l.Feed(piece(l7.Read, 40, prefixed(response(t, 2, 0, 0, q))))
	require.Len(t, l.reported, 2)
	require.True(t, l.reported[0].Response.Cut)
	require.Equal(t, []any{uint16(1), 1, "x.example."}, []any{l.reported[0].DNS.ID, l.reported[0].DNS.Answers, l.reported[0].Names[0]})
	require.False(t, l.reported[1].Response.Cut)
	require.Equal(t, uint16(2), l.reported[1].DNS.ID)
}

func TestNamesAreEscaped(t *testing.T) {
	l := listen(l7.UDP)
	l.Feed(piece(l7.Write, 10, query(t, 1, 0, question("a\x00\\ \xff.x.", dnsmessage.TypeA))))
	l.Close()
	require.Equal(t, []string{`a\000\\\032\255.x.`}, l.reported[0].Names)
}

// TestOtherDatagramsAreNone checks that what is not DNS is not taken for it.
func TestOtherDatagramsAreNone(t *testing.T) {
	for name, data := range map[string][]byte{
		"empty query": make([]byte, 12),
		"NTP":         append([]byte{0x23, 0, 6, 0xec}, make([]byte, 44)...),
		"text":        []byte("<34>Oct 11 22:14:15 mymachine su: 'su root' failed"),
		"QUIC":        append([]byte{0xc3, 0, 0, 0, 1, 8}, bytes.Repeat([]byte{0x5a}, 1194)...),
	} {
		l := listen(l7.UDP)
		l.Feed(piece(l7.Write, 10, data))
		require.Equal(t, l7.Undecided, l.State(), name)
	}
}

func TestExchangesAllocateNothing(t *testing.T) {
	x := l7.Sink{Limits: l7.DefaultLimits(), Stats: &l7.Stats{}, Exchange: func(*l7.Exchange) {}}
	conn := l7.NewConn([]l7.Protocol{dns.Protocol{}}, l7.UDP, l7.RoleUnknown, &x)
	asked, answered := question("sHop.EXAMPLE.", dnsmessage.TypeA), question("shop.example.", dnsmessage.TypeA)
	q, r := piece(l7.Write, 10, query(t, 1, 1232, asked)), piece(l7.Read, 20, response(t, 1, 1232, 0, answered))
	once := func() { conn.Feed(q); conn.Feed(r) }
	once()
	require.Zero(t, testing.AllocsPerRun(100, once))
	require.Equal(t, uint64(102), x.Stats.Exchanges)
}

// FuzzConnection feeds anything, in pieces, over both transports: memory stays bounded, and the next exchange after a loss is right.
func FuzzConnection(f *testing.F) {
	q := question("shop.example.", dnsmessage.TypeA)
	f.Add(query(f, 1, 1232, q), uint64(1))
	f.Add(prefixed(query(f, 1, 0, q), response(f, 1, 0, 0, q)), uint64(2))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		for _, transport := range []l7.Transport{l7.TCP, l7.UDP} {
			rnd := rand.New(rand.NewPCG(seed, 2))
			l := listen(transport)
			now := int64(10)
			for rest := data; len(rest) > 0; now += 10 {
				n := 1 + rnd.IntN(len(rest))
				p := piece(l7.Direction(rnd.IntN(2)), now, bytes.Clone(rest[:n]))
				p.Length += int64(rnd.IntN(3) * rnd.IntN(100))
				l.Feed(p)
				require.Less(t, l.Held(), 64<<10)
				rest = rest[n:]
			}
			l.Expire(now)
			l.reported = nil
			asked := question("after.example.", dnsmessage.TypeA)
			messages := [][]byte{query(t, 9, 1232, asked), response(t, 9, 1232, 3, asked)}
			for d, message := range messages {
				if transport == l7.TCP {
					message = prefixed(message)
				}
				now += 10
				p := piece(l7.Direction(d), now, message)
				p.Lost, p.LostAt = l7.LostUnknown, now-5
				l.Feed(p)
			}
			require.Len(t, l.reported, 1)
			require.Equal(t, []any{uint16(9), "server", "NXDOMAIN", l7.Complete}, []any{l.reported[0].DNS.ID, l.reported[0].Role, l.reported[0].ErrorType, l.reported[0].Outcome})
		}
	})
}
