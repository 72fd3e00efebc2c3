// SPDX-License-Identifier: Apache-2.0

package http1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

const (
	get  = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
	ok   = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	post = "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n"
)

// TestMessagesEndWhereTheRulesSay goes through RFC 9112, section 6.3, and what else moves a message's end. A request that follows shows
// that the end was found.
func TestMessagesEndWhereTheRulesSay(t *testing.T) {
	type want = []any // method, target, status, bytes of the request's and the response's body, outcome
	for name, c := range map[string]struct {
		script script
		want   []want
	}{
		"no body":                              {script{reads(get), writes(ok)}, []want{{"GET", "/a", 200, 0, 0, l7.Complete}}},
		"body of known length":                 {script{reads(post), reads("0123456789"), writes(ok)}, []want{{"POST", "/p", 200, 10, 0, l7.Complete}}},
		"only the length is seen":              {script{reads(get), writes("HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n"), writesMore(1999999), writesMore(1)}, []want{{"GET", "/a", 200, 0, 2000000, l7.Complete}}},
		"the same length twice":                {script{reads(get), writes("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\ncontent-length:2\r\n\r\nab")}, []want{{"GET", "/a", 200, 0, 2, l7.Complete}}},
		"chunks":                               {script{reads(get), writes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=\"y\"\r\nhello\r\nA\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n")}, []want{{"GET", "/a", 200, 0, 15, l7.Complete}}},
		"chunks win over a length":             {script{reads(get), writes("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n")}, []want{{"GET", "/a", 200, 0, 1, l7.Complete}}},
		"chunks of unknown content":            {script{reads(get), writes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\nab"), writesMore(4093), writes("\r\n0\r\n\r\n")}, []want{{"GET", "/a", 200, 0, 4095, l7.Complete}}},
		"HEAD":                                 {script{reads("HEAD /a HTTP/1.1\r\n\r\n"), writes("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")}, []want{{"HEAD", "/a", 200, 0, 0, l7.Complete}}},
		"204":                                  {script{reads(get), writes("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n")}, []want{{"GET", "/a", 204, 0, 0, l7.Complete}}},
		"304":                                  {script{reads(get), writes("HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n")}, []want{{"GET", "/a", 304, 0, 0, l7.Complete}}},
		"interim":                              {script{reads(get), writes("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n" + ok)}, []want{{"GET", "/a", 200, 0, 0, l7.Complete}}},
		"continue":                             {script{reads("PUT /p HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"), writes("HTTP/1.1 100 Continue\r\n\r\n"), reads("ab"), writes(ok)}, []want{{"PUT", "/p", 200, 2, 0, l7.Complete}}},
		"not continued":                        {script{reads("PUT /p HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"), writes("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n")}, []want{{"PUT", "/p", 417, 0, 0, l7.Complete}}},
		"answered before its end":              {script{reads(post), reads("0123"), writes("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"), reads("456789")}, []want{{"POST", "/p", 413, 10, 0, l7.Complete}}},
		"blank lines before, line feeds alone": {script{reads("\r\n\r\nGET /a HTTP/1.1\nHost: h\n\n"), writes("\r\nHTTP/1.1 200 OK\nContent-Length: 0\n\n")}, []want{{"GET", "/a", 200, 0, 0, l7.Complete}}},
		"no reason phrase":                     {script{reads(get), writes("HTTP/1.1 200\r\nContent-Length: 1\r\n\r\na")}, []want{{"GET", "/a", 200, 0, 1, l7.Complete}}},
		"pipelined": {script{reads(get + "HEAD /b HTTP/1.1\r\n\r\nGET /c HTTP/1.1\r\n\r\n"), writes(ok + ok + "HTTP/1.1 404 N\r\nContent-Length: 3\r\n\r\nabc")},
			[]want{{"GET", "/a", 200, 0, 0, l7.Complete}, {"HEAD", "/b", 200, 0, 0, l7.Complete}, {"GET", "/c", 404, 0, 3, l7.Complete}}},
		"a head in single bytes":         {append(each(get), each(ok)...), []want{{"GET", "/a", 200, 0, 0, l7.Complete}}},
		"the head of a response is cut":  {script{reads(get), cutWrite{"HTTP/1.1 201 Created\r\nContent-Le", 5000}, writesMore(300)}, []want{{"GET", "/a", 201, 0, -1, l7.Complete}}},
		"the head of a request is cut":   {script{cutRead{"GET /abc", 5000}, writes(ok)}, []want{{"GET", "/abc", 200, -1, 0, l7.Complete}}},
		"sizes of chunks are not seen":   {script{reads(get), cutWrite{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", 90}, writesMore(700), writes("0\r\n\r\n")}, []want{{"GET", "/a", 200, 0, -1, l7.Complete}}},
		"the end of a chunk is not seen": {script{reads(get), writes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), cutWrite{"fff\r\nab", 4095}, cutWrite{"10\r\nab", 16}, writes("0\r\n\r\n")}, []want{{"GET", "/a", 200, 0, 4111, l7.Complete}}},
		"chunks that are none":           {script{reads(get), writes("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n")}, []want{{"GET", "/a", 200, 0, -1, l7.Complete}}},
		"lengths that differ":            {script{reads(get), writes("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc")}, []want{{"GET", "/a", 200, 0, -1, l7.Complete}}},
		"a length that is none":          {script{reads("POST /p HTTP/1.1\r\nContent-Length: -5\r\n\r\n"), writes(ok)}, []want{{"POST", "/p", 200, -1, 0, l7.Complete}}},
		"unknown methods":                {script{reads("BAN /b HTTP/1.1\r\n\r\n"), writes(ok), reads("M-SEARCH * HTTP/1.1\r\n\r\n"), writes(ok)}, []want{{"_OTHER", "/b", 200, 0, 0, l7.Complete}, {"_OTHER", "*", 200, 0, 0, l7.Complete}}},
		"nonsense between":               {script{reads(get), writes(ok), reads("\x00\x01nonsense\r\n\r\n")}, []want{{"GET", "/a", 200, 0, 0, l7.Complete}}},

		"chunks not continued": {
			script{reads("PUT /p HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"), writes("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n")},
			[]want{{"PUT", "/p", 417, 0, 0, l7.Complete}},
		},
		"chunks sent all the same": {
			script{
				reads("PUT /p HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"), writes("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"),
				reads("13"), reads("\r\n"), reads("GET / HTTP/1.1\r\n\r\n\n"), reads("\r\n0\r\n\r\n"),
			},
			[]want{{"PUT", "/p", 417, 19, 0, l7.Complete}},
		},
	} {
		for _, client := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				l := listen()
				l.play(t, append(append(script{}, c.script...), reads("GET /next HTTP/1.1\r\n\r\n"), writes("HTTP/1.1 299 Fine\r\nContent-Length: 7\r\n\r\n1234567")), client)
				l.Close()
				l.requireBriefs(t, append(c.want, want{"GET", "/next", 299, 0, 7, l7.Complete})...)
			})
		}
	}
}

// TestEndsOfUnseenChunks checks that a message whose chunks were not seen is reported when it ends, whatever comes later on the connection.
func TestEndsOfUnseenChunks(t *testing.T) {
	for name, c := range map[string]struct {
		end  script
		ends bool
	}{
		"in one piece":              {script{writes("ab\r\n0\r\n\r\n")}, true},
		"by itself":                 {script{writes("0\r\n\r\n")}, true},
		"in two pieces":             {script{writes("ab\r\n0\r\n"), writes("\r\n")}, true},
		"begun before":              {script{writes("ab\r"), writes("\n0\r\n\r\n")}, true},
		"byte by byte":              {script{writes("b"), writes("\r"), writes("\n"), writes("0"), writes("\r"), writes("\n"), writes("\r"), writes("\n")}, true},
		"after what looks like it":  {script{writes("\r\n0"), writes("\r\n\r"), writes("\r\n0\r\n\r\n")}, true},
		"with trailers":             {script{writes("ab\r\n0\r\nServer-Timing: db;dur=53\r\nX-B: c\r\n\r\n")}, true},
		"with trailers, by itself":  {script{writes("ab\r\n"), writes("0\r\nServer-Timing: db;dur=53\r\n\r\n")}, true},
		"content before its end":    {script{writes("ab"), writes("0\r\n\r\n")}, false},
		"content with empty lines":  {script{writes("a\r\n0\r\nno field\r\n\r\n")}, false},
		"a chunk that is not empty": {script{writes("a\r\n10\r\n\r\n")}, false},
		"bytes between":             {script{writes("ab\r\n0\r\n"), writesMore(3), writes("\r\n")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen()
			l.play(t, append(script{reads(get), cutWrite{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", 90}, writesMore(700)}, c.end...), false)
			require.Equal(t, c.ends, len(l.reported) == 1)
			l.Close()
			require.Len(t, l.reported, 1)
		})
	}
}

func each(text string) (s script) {
	for i := range text {
		if strings.HasPrefix(text, "HTTP") {
			s = append(s, writes(text[i:i+1]))
		} else {
			s = append(s, reads(text[i:i+1]))
		}
	}
	return s
}

// TestConnectionsEnd checks what is reported of what is not complete when the connection ends.
func TestConnectionsEnd(t *testing.T) {
	type want = []any
	for name, c := range map[string]struct {
		script script
		want   []want
		errors string
	}{
		"the body ends with it":         {script{reads(get), writes("HTTP/1.0 200 OK\r\n\r\nabc"), writesMore(50)}, []want{{"GET", "/a", 200, 0, 53, l7.Complete}}, ""},
		"within a response":             {script{reads(get), writes("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")}, []want{{"GET", "/a", 200, 0, 3, l7.Aborted}}, "aborted"},
		"within a response's head":      {script{reads(get), writes("HTTP/1.1 200 OK\r\nConte")}, []want{{"GET", "/a", 200, 0, 0, l7.Aborted}}, "aborted"},
		"within a request":              {script{reads(post), reads("012")}, []want{{"POST", "/p", 0, 3, 0, l7.Aborted}}, "aborted"},
		"one way":                       {script{reads(get)}, []want{{"GET", "/a", 0, 0, 0, l7.Unanswered}}, "no_response"},
		"a response within its request": {script{reads(post), reads("0"), writes("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")}, []want{{"POST", "/p", 500, 1, 0, l7.Complete}}, "500"},
		"a response without request":    {script{writes("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")}, []want{{"", "", 408, 0, 0, l7.Complete}}, ""},
		"HTTP/1.0 has no chunks":        {script{reads(get), writes("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")}, []want{{"GET", "/a", 200, 0, 10, l7.Complete}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen()
			l.play(t, c.script, false)
			l.Close()
			l.requireBriefs(t, c.want...)
			require.Equal(t, c.errors, l.reported[0].ErrorType)
		})
	}
}

func TestTheConnectionChangesItsProtocol(t *testing.T) {
	for name, c := range map[string]struct {
		request, response string
		upgrade           string
	}{
		"websocket": {"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", "websocket"},
		"tunnel":    {"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n", "HTTP/1.1 200 Connected\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen()
			l.play(t, script{reads(c.request), writes(c.response + "\x81\x05hello")}, false)
			require.Len(t, l.reported, 1)
			require.Equal(t, c.upgrade, l.reported[0].Upgrade)
			require.Equal(t, int64(len(c.response)), l.reported[0].Response.Whole)
			require.Equal(t, l7.Undecided, l.State(), "what follows is looked at anew")
			l.play(t, script{reads(get), writes(ok)}, false) // as through a tunnel
			require.Equal(t, "http", l.Protocol())
			require.Len(t, l.reported, 2)
		})
	}
}

func TestFieldsAreToldAsTheyWereSent(t *testing.T) {
	l := listen()
	const request = "GET http://u@shop.example/x/y?a=b&c HTTP/1.1\r\nHost: other\r\nTRACEPARENT:one\r\nX-Content-Type: no\r\n" +
		"Content-Type: multipart/form-data;\r\n\t boundary=x  \r\ntraceparent: \t two \r\nUser-Agent:\r\n\r\n"
	l.play(t, script{reads(request), writes(ok)}, false)
	require.Len(t, l.reported, 1)
	x := l.reported[0]
	require.Equal(t, []string{"one, two", "multipart/form-data; boundary=x", ""}, x.RequestFields)
	require.Equal(t, []string{absent, "0"}, x.ResponseFields)
	require.Equal(t, []string{"http", "shop.example", "/x/y", "a=b&c"}, []string{x.Scheme, x.Host, x.Path, x.Query})
	require.Equal(t, l7.Side{Known: true, Ended: true, First: 10, Last: 10, Whole: int64(len(request))}, x.Request, "read when the call returned")
	require.Equal(t, l7.Side{Known: true, Ended: true, First: 15, Last: 20, Whole: int64(len(ok))}, x.Response, "written as the call began")
}

// TestUserinfoIsLeftOut checks that no part of a request says which user a client named, and by which password.
func TestUserinfoIsLeftOut(t *testing.T) {
	for head, want := range map[string][2]string{
		"GET /a HTTP/1.1\r\nHost: alice:SECRET@shop.example:8080\r\n\r\n":                {"shop.example:8080", "/a"},
		"GET http://alice:SECRET@shop.example/a HTTP/1.1\r\nHost: b:SECRET@c\r\n\r\n":    {"shop.example", "/a"},
		"CONNECT alice:SECRET@shop.example:443 HTTP/1.1\r\nHost: b:SECRET@c\r\n\r\n":     {"shop.example:443", ""},
		"OPTIONS alice:SECRET@shop.example:443 HTTP/1.1\r\nHost: b:SECRET@c:443\r\n\r\n": {"c:443", "shop.example:443"},
	} {
		l := listen()
		l.play(t, script{reads(head), writes(ok)}, false)
		require.Len(t, l.reported, 1, head)
		require.Equal(t, want, [2]string{l.reported[0].Host, l.reported[0].Path}, head)
	}
}

// TestLossNeverMispairs checks that a response is reported with its own request or with none.
func TestLossNeverMispairs(t *testing.T) {
	type want = []any
	request := func(target string) reads { return reads("GET " + target + " HTTP/1.1\r\n\r\n") }
	response := func(status string) writes { return writes("HTTP/1.1 " + status + " X\r\nContent-Length: 0\r\n\r\n") }
	for name, c := range map[string]struct {
		script script
		want   []want
	}{
		"a response is lost": {script{request("/a"), lostWrite{l7.LostUnknown, 15}, request("/b"), response("202")},
			[]want{{"GET", "/a", 0, 0, 0, l7.Lost}, {"GET", "/b", 202, 0, 0, l7.Complete}}},
		"a response and the next request": {script{request("/a"), lostWrite{l7.LostUnknown, 15}, response("202"), lostRead{l7.LostUnknown, 15}, request("/c"), response("203")},
			[]want{{"GET", "/a", 0, 0, 0, l7.Lost}, {"", "", 202, 0, 0, l7.Complete}, {"GET", "/c", 203, 0, 0, l7.Complete}}},
		"at an unknown time": {script{request("/a"), lostWrite{l7.LostUnknown, 0}, response("200"), request("/b"), response("201")},
			[]want{{"GET", "/a", 0, 0, 0, l7.Lost}, {"GET", "/b", 201, 0, 0, l7.Complete}}},
		"a request is lost": {script{request("/a"), response("201"), response("202"), lostRead{l7.LostUnknown, 25}, request("/c"), response("203")},
			[]want{{"GET", "/a", 201, 0, 0, l7.Complete}, {"", "", 202, 0, 0, l7.Complete}, {"GET", "/c", 203, 0, 0, l7.Complete}}},
		"a request of a pipeline is lost": {script{
			request("/a"), request("/b"), response("201"), response("202"),
			request("/c"), lostRead{l7.LostUnknown, 55}, request("/e"), response("203"), response("204"), response("205"),
			pause(2e9), request("/f"), response("206")},
			[]want{{"GET", "/a", 201, 0, 0, l7.Complete}, {"GET", "/b", 202, 0, 0, l7.Complete}, {"GET", "/c", 203, 0, 0, l7.Complete},
				{"", "", 204, 0, 0, l7.Complete}, {"", "", 205, 0, 0, l7.Complete}, {"GET", "/f", 206, 0, 0, l7.Complete}}},
		"requests follow on a cut one, unseen": {script{
			cutRead{"GET /a HTTP/1.1\r\n\r\nGET /b HT", 500}, request("/d"), response("201"), response("202"), response("203"), response("204"),
			pause(2e9), request("/e"), response("205")},
			[]want{{"GET", "/a", 201, 0, 0, l7.Complete}, {"GET", "/b", 202, -1, 0, l7.Complete}, {"GET", "/d", 0, 0, 0, l7.Lost}, {"", "", 204, 0, 0, l7.Complete},
				{"GET", "/e", 205, 0, 0, l7.Complete}}},
		"and are answered before the next one": {script{
			cutRead{"GET /a HTTP/1.1\r\nX: ", 9000}, response("201"), response("202"), request("/d"), response("203"), response("204"),
			pause(2e9), request("/e"), response("205")},
			[]want{{"GET", "/a", 201, -1, 0, l7.Complete}, {"", "", 202, 0, 0, l7.Complete}, {"GET", "/d", 0, 0, 0, l7.Lost}, {"", "", 204, 0, 0, l7.Complete},
				{"GET", "/e", 205, 0, 0, l7.Complete}}},
		"requests follow on a whole one, unseen": {script{
			cutRead{"GET /a HTTP/1.1\r\n\r\n", 500}, response("201"), request("/d"), response("202"), response("203"),
			pause(2e9), request("/e"), response("205")},
			[]want{{"GET", "/a", 201, 0, 0, l7.Complete}, {"", "", 202, 0, 0, l7.Complete}, {"", "", 203, 0, 0, l7.Complete}, {"GET", "/e", 205, 0, 0, l7.Complete}}},
		"responses follow on a cut one, unseen": {script{
			request("/a"), request("/b"), request("/c"), request("/d"), cutWrite{"HTTP/1.1 201 X\r\nContent-Length: 0\r\n\r\nHTTP/1.1 202 X\r\nConte", 60},
			request("/e"), response("204"), request("/f"), response("205"), response("206"), pause(2e9), request("/g"), response("207")},
			[]want{{"GET", "/a", 201, 0, 0, l7.Complete}, {"GET", "/b", 202, 0, -1, l7.Complete}, {"GET", "/c", 0, 0, 0, l7.Lost}, {"GET", "/d", 0, 0, 0, l7.Lost},
				{"GET", "/e", 0, 0, 0, l7.Lost}, {"GET", "/f", 0, 0, 0, l7.Lost},
				{"GET", "/g", 207, 0, 0, l7.Complete}}},
		"responses follow on a whole one, unseen": {script{
			request("/a"), request("/b"), request("/c"), cutWrite{"HTTP/1.1 201 X\r\nContent-Length: 0\r\n\r\n", 60},
			request("/d"), response("203"), response("204"), pause(2e9), request("/e"), response("205")},
			[]want{{"GET", "/a", 201, 0, 0, l7.Complete}, {"GET", "/b", 0, 0, 0, l7.Lost}, {"GET", "/c", 0, 0, 0, l7.Lost}, {"GET", "/d", 0, 0, 0, l7.Lost},
				{"GET", "/e", 205, 0, 0, l7.Complete}}},
		"an interim response is cut": {script{request("/a"), cutWrite{"HTTP/1.1 100 Continue\r\nX: ", 60}, request("/b"), response("202")},
			[]want{{"GET", "/a", 0, 0, 0, l7.Lost}, {"GET", "/b", 202, 0, 0, l7.Complete}}},
		"bytes of a body of known length": {script{reads(post), lostRead{4, 15}, reads("456789"), response("200"), request("/b"), response("201")},
			[]want{{"POST", "/p", 200, 10, 0, l7.Complete}, {"GET", "/b", 201, 0, 0, l7.Complete}}},
		"unknown bytes of a body": {script{reads(post), lostRead{l7.LostUnknown, 15}, reads("789"), response("200"), request("/b"), response("201")},
			[]want{{"POST", "/p", 200, -1, 0, l7.Complete}, {"GET", "/b", 201, 0, 0, l7.Complete}}},
		"a response's middle": {script{request("/a"), writes("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"), lostWrite{l7.LostUnknown, 25}, writes("xyz"), request("/b"), response("201")},
			[]want{{"GET", "/a", 200, 0, -1, l7.Lost}, {"GET", "/b", 201, 0, 0, l7.Complete}}},
		"nothing is known of a response": {script{request("/a"), writesMore(500), request("/b"), response("201")},
			[]want{{"GET", "/a", 0, 0, 0, l7.Lost}, {"GET", "/b", 201, 0, 0, l7.Complete}}},
		"met in the middle": {script{writes("</html>"), reads("key=value"), writes("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde"), request("/b"), response("201")},
			[]want{{"", "", 200, 0, 5, l7.Complete}, {"GET", "/b", 201, 0, 0, l7.Complete}}},
		"nonsense instead of a response": {script{request("/a"), response("200"), request("/b"), writes("nonsense\r\n"), request("/c"), response("203")},
			[]want{{"GET", "/a", 200, 0, 0, l7.Complete}, {"GET", "/b", 0, 0, 0, l7.Lost}, {"GET", "/c", 203, 0, 0, l7.Complete}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen()
			l.play(t, c.script, false)
			l.Close()
			l.requireBriefs(t, c.want...)
			for _, x := range l.reported {
				require.True(t, x.Outcome != l7.Complete || x.Response.Ended, "the end of %v", brief(x))
			}
		})
	}
}

// TestWhatFollowsUnseenIsCounted checks that a loss within a transfer is counted, of whichever direction.
func TestWhatFollowsUnseenIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		script script
		want   l7.Stats
	}{
		"where a request begins":       {script{cutRead{get, 500}, writes(ok)}, l7.Stats{Exchanges: 1, Losses: 1}},
		"in a request's first word":    {script{cutRead{get + "GE", 500}, writes(ok)}, l7.Stats{Exchanges: 1, Losses: 1}},
		"in a request's head":          {script{cutRead{get + "GET /b", 500}, writes(ok + ok)}, l7.Stats{Exchanges: 2, Cut: 1}},
		"where a response begins":      {script{reads(get + get), cutWrite{ok, 50}}, l7.Stats{Exchanges: 2, Losses: 1, Unanswered: 1}},
		"in a response's first word":   {script{reads(get + get), cutWrite{ok + "HTTP/1.1 2", 50}}, l7.Stats{Exchanges: 2, Losses: 1, Unanswered: 1}},
		"in a response's head":         {script{reads(get + get), cutWrite{ok + "HTTP/1.1 200 OK\r\nCo", 50}}, l7.Stats{Exchanges: 2, Cut: 1}},
		"where nothing may be missing": {script{reads(post), readsMore(10), writes(ok)}, l7.Stats{Exchanges: 1}},
	} {
		for _, client := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				l := listen()
				l.play(t, c.script, client)
				l.Close()
				require.Equal(t, c.want, l.stats)
			})
		}
	}
}

// TestAClientReadsBeforeItsWriteReturns is what two threads of a client may look like.
func TestAClientReadsBeforeItsWriteReturns(t *testing.T) {
	for _, method := range []string{"GET", "HEAD"} {
		body := map[string]string{"GET": "abc", "HEAD": ""}[method]
		l := listen()
		resp := whole(l7.Read, 100, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"+body)
		req := whole(l7.Write, 101, method+" /a HTTP/1.1\r\n\r\n")
		l.Feed(resp)
		l.Feed(req)
		require.Len(t, l.reported, 1)
		require.Equal(t, []any{method, "/a", 200, int64(0), int64(len(body)), l7.Complete}, brief(l.reported[0]))
		require.Equal(t, int64(96), l.reported[0].Request.First)
		require.Equal(t, int64(100), l.reported[0].Response.Last)
	}
}

func TestMoreRequestsThanAreKeptAreCounted(t *testing.T) {
	limits := l7.DefaultLimits()
	limits.Pipelined = 2
	l := listenWithin(limits)
	l.play(t, script{reads(get + get + "POST /p HTTP/1.1\r\nContent-Length: 2\r\n\r\nab"), writes("HTTP/1.1 201 C\r\nContent-Length: 0\r\n\r\n" + ok)}, false)
	require.Equal(t, uint64(1), l.stats.Unkept)
	l.play(t, script{writes(ok), reads(get), writes(ok)}, false)
	l.requireBriefs(t, []any{"GET", "/a", 201, 0, 0, l7.Complete}, []any{"GET", "/a", 200, 0, 0, l7.Complete}, []any{"", "", 200, 0, 0, l7.Complete},
		[]any{"GET", "/a", 200, 0, 0, l7.Complete})
}

func TestTheEndOfACutResponseIsWaitedFor(t *testing.T) {
	l := listen()
	l.play(t, script{reads(get), cutWrite{"HTTP/1.1 200 OK\r\n", 900}, writesMore(100)}, false)
	l.Expire(30)
	require.Empty(t, l.reported, "it was not quiet since 30")
	l.Expire(31)
	require.Len(t, l.reported, 1)
	require.Equal(t, l7.Side{Known: true, Cut: true, Ended: true, First: 15, Last: 30, Body: l7.Unknown, Whole: 1017}, l.reported[0].Response)
}

func TestLongLinesAreCut(t *testing.T) {
	limits := l7.DefaultLimits()
	long := strings.Repeat("x", 3*limits.Line)
	for _, pieces := range []int{1, 7} {
		l := listen()
		text := "GET /" + long + " HTTP/1.1\r\nTraceparent: " + long + "\r\nUser-Agent: u\r\n\r\n"
		var s script
		for i := range pieces {
			s = append(s, reads(text[len(text)*i/pieces:len(text)*(i+1)/pieces]))
		}
		l.play(t, append(s, writes(ok), reads(get), writes(ok)), false)
		require.Len(t, l.reported, 2)
		require.True(t, l.reported[0].Request.Cut)
		require.True(t, strings.HasPrefix("/"+long, l.reported[0].Target))
		require.Greater(t, len(l.reported[0].Target), limits.Line/2)
		require.Equal(t, int64(len(text)), l.reported[0].Request.Whole)
		require.Equal(t, "/a", l.reported[1].Target)
		require.Less(t, l.Held(), 64<<10)
	}
}

func TestAHeadWithoutEndIsGivenUp(t *testing.T) {
	l := listen()
	l.play(t, script{reads("GET /a HTTP/1.1\r\n")}, false)
	line := "X-Noise: " + strings.Repeat("n", 1000) + "\r\n"
	for range 2 * int(l7.DefaultLimits().Head) / len(line) {
		l.play(t, script{reads(line + "X-")}, false)
	}
	require.Equal(t, uint64(1), l.stats.Cut)
	require.Less(t, l.Held(), 32<<10)
	l.play(t, script{reads(get), writes(ok)}, false)
	require.Equal(t, "/a", l.reported[0].Target)
}
