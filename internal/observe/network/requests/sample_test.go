// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/httpexchange"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func gzipped(t testing.TB, text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// called returns messages as gRPC sends them.
func called(messages ...string) (sent []byte) {
	for _, m := range messages {
		sent = append(binary.BigEndian.AppendUint32(append(sent, 0), uint32(len(m))), m...)
	}
	return sent
}

// packed returns a message that gRPC sends compressed.
func packed(t testing.TB, message string) []byte {
	sent := called(string(gzipped(t, message)))
	sent[0] = 1
	return sent
}

// formType is the Content-Type of forms.
const formType = "application/x-www-form-urlencoded"

// messageOf returns a kept message with this content.
func messageOf(lines []string, body []byte, rule BodyRule) *sampledMessage {
	kept := contents(nil)
	kept.Body, kept.Head = 1<<20, 1<<20
	content := kept.New(1, l7.Opening{})
	for _, line := range lines {
		content.AddField([]byte(line))
	}
	content.AddBody(body, int64(len(body)))
	return newSampledMessage(&l7.Side{Known: true, Ended: true, First: 1e9, Last: 3e9, Content: content}, 17, rule, wall)
}

// listed returns the lists among attributes.
func listed(list []model.Attribute) map[string][]string {
	all := map[string][]string{}
	for _, a := range list {
		if a.Value.Type == model.ListAttribute {
			all[a.Key] = a.Value.List()
		}
	}
	return all
}

// TestSampledBodies checks what is exported of bodies by their type and coding.
func TestSampledBodies(t *testing.T) {
	const much = 1 << 10
	form := map[string]any{"content": "password=?"}
	bomb := gzipped(t, strings.Repeat("a", 8<<20))
	for name, c := range map[string]struct {
		lines []string
		body  []byte
		rule  BodyRule
		want  map[string]any // of the attributes ebpf.body.…
	}{
		"none":          {[]string{"Content-Length: 0"}, nil, BodyRule{MaxBytes: much}, map[string]any{}},
		"text":          {[]string{"content-type: text/plain"}, []byte("ä\n\tb"), BodyRule{MaxBytes: much}, map[string]any{"content": "ä\n\tb"}},
		"of no kind":    {nil, []byte("{}"), BodyRule{MaxBytes: much}, map[string]any{"content": "{}"}},
		"cut":           {nil, []byte("abc"), BodyRule{MaxBytes: 2}, map[string]any{"content": "ab", "cut": true}},
		"in a letter":   {nil, []byte("aä"), BodyRule{MaxBytes: 2}, map[string]any{"content": "a", "cut": true}},
		"in a longer":   {nil, []byte("€a"), BodyRule{MaxBytes: 2}, map[string]any{"content": "", "cut": true}},
		"gzip":          {[]string{"Content-Encoding: gzip"}, gzipped(t, "text"), BodyRule{MaxBytes: much}, map[string]any{"content": "text", "encoding": "gzip"}},
		"a bomb":        {[]string{"Content-Encoding: gzip"}, bomb, BodyRule{MaxBytes: 3}, map[string]any{"content": "aaa", "cut": true, "encoding": "gzip"}},
		"its beginning": {[]string{"Content-Encoding: gzip"}, bomb[:100], BodyRule{MaxBytes: 3}, map[string]any{"content": "aaa", "cut": true, "encoding": "gzip"}},
		"brotli": {[]string{"Content-Encoding: br"}, []byte("x"), BodyRule{MaxBytes: much}, map[string]any{
			"encoding": "br", "error": `decoding a body of Content-Encoding "br": it is not supported`,
		}},
		"Latin-1 by its kind": {[]string{"Content-Type: text/plain; charset=iso-8859-1"}, []byte("\xe4"), BodyRule{MaxBytes: much, Charset: "utf-8"}, map[string]any{"content": "ä"}},
		"Latin-1 by the rule": {[]string{"Content-Type: text/plain"}, []byte("\xe4"), BodyRule{MaxBytes: much, Charset: "iso-8859-1"}, map[string]any{"content": "ä"}},
		"no text":             {[]string{"Content-Type: image/png"}, []byte("\x89PNG\xff"), BodyRule{MaxBytes: much}, map[string]any{"error": "not_text"}},
		"a form": {[]string{"Content-Type: application/x-www-form-urlencoded; charset=utf-8"}, []byte("card=4111&cvc"), BodyRule{MaxBytes: much}, map[string]any{
			"content": "card=?&?",
		}},
		"a form of half a parameter": {[]string{"Content-Type: Application/X-WWW-Form-URLencoded ; charset"}, []byte("password=SECRET"), BodyRule{MaxBytes: much}, form},
		"a form by two fields":       {[]string{"Content-Type: " + formType, "Content-Type: " + formType}, []byte("password=SECRET"), BodyRule{MaxBytes: much}, form},
		"a form by the second":       {[]string{"Content-Type: text/plain;a", "Content-Type: " + formType}, []byte("password=SECRET"), BodyRule{MaxBytes: much}, form},
		"a form that grows":          {[]string{"Content-Type: " + formType}, []byte("a=&b=&&\u00e4="), BodyRule{MaxBytes: 10}, map[string]any{"content": "a=?&b=?&?&", "cut": true}},
		"perhaps a form":             {[]string{"X: " + strings.Repeat("x", 1<<20), "Accept: a"}, []byte("password=SECRET"), BodyRule{MaxBytes: much}, form},
		"no form by its type":        {[]string{"Content-Type: text/plain; of=" + formType}, []byte("a=b"), BodyRule{MaxBytes: much}, map[string]any{"content": "a=b"}},
		"a call": {[]string{"content-type: application/grpc"}, called("\x08\x96\x01\x12\x07testing", "\x0a\x01a"), BodyRule{MaxBytes: much}, map[string]any{
			"content": "1: 150 2: \"testing\"\n1: \"a\"",
		}},
		"a call in JSON": {[]string{"content-type: application/grpc+json; charset=utf-8"}, called(`{"a":1}`, "{}"), BodyRule{MaxBytes: much}, map[string]any{
			"content": "{\"a\":1}\n{}",
		}},
		"a packed call": {
			[]string{"content-type: application/grpc+proto", "grpc-encoding: gzip"}, packed(t, "\x08\x96\x01"), BodyRule{MaxBytes: much},
			map[string]any{"content": "1: 150", "encoding": "gzip"},
		},
		"a cut call":         {[]string{"content-type: application/grpc"}, called("\x12\x07testing", "\x08\x01"), BodyRule{MaxBytes: 4}, map[string]any{"content": `2: "`, "cut": true}},
		"a call that is cut": {[]string{"content-type: application/grpc"}, called("\x12\x07testing")[:10], BodyRule{MaxBytes: much}, map[string]any{"content": `2: "tes"`, "cut": true}},
		"a bomb of a call": {
			[]string{"content-type: application/grpc", "grpc-encoding: gzip"}, packed(t, "\x0a\x80\x80\x80\x04"+strings.Repeat("a", 8<<20)), BodyRule{MaxBytes: 8},
			map[string]any{"content": `1: "aaa"`, "cut": true, "encoding": "gzip"},
		},
		"many messages": {
			[]string{"content-type: application/grpc+json"}, bytes.Repeat(called(""), 300), BodyRule{MaxBytes: much},
			map[string]any{"content": strings.Repeat("\n", 255), "cut": true},
		},
		"a call of another format": {[]string{"content-type: application/grpc+thrift"}, called("\x80\x01"), BodyRule{MaxBytes: much}, map[string]any{"error": "not_text"}},
		"no message":               {[]string{"content-type: application/grpc"}, called("hello, world"), BodyRule{MaxBytes: much}, map[string]any{"error": "not_text"}},
		"folded":                   {[]string{"Content-Encoding:", " gzip"}, gzipped(t, "text"), BodyRule{MaxBytes: much}, map[string]any{"content": "text", "encoding": "gzip"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]any{}
			for key, value := range values(messageOf(c.lines, c.body, c.rule).attributes(httpexchange.SampleAttributes, sampledRequest, &Redaction{Query: true})) {
				if of, ok := strings.CutPrefix(key, "ebpf.body."); ok {
					got[of] = value
				}
			}
			require.Equal(t, c.want, got)
		})
	}
}

// TestSampledFields checks which fields of a head are exported and what of them is redacted, also if lines are folded.
func TestSampledFields(t *testing.T) {
	m := messageOf([]string{
		"Accept: a", "ACCEPT: b, c", "Authorization: Bearer secret", "Cookie: a=secret;", "\tb=secret", "no field", ": none", "X-Nul: a\x00b",
		"Referer: https://shop/?card=4111&x#top", `Link: <https://a/?card=4111>; rel="next?", <b?c=4111>`, "X-Question: why?",
	}, nil, BodyRule{MaxBytes: 10})
	want := map[string][]string{
		"accept": {"a", "b, c"}, "authorization": {"[redacted]"}, "cookie": {"[redacted]"}, "x-nul": {"a\ufffdb"},
		"referer": {"https://shop/?card=?&?#top"}, "link": {`<https://a/?card=?>; rel="next?", <b?c=?>`}, "x-question": {"why?"},
	}
	got := listed(m.attributes(httpexchange.SampleAttributes, sampledResponse, &Redaction{Query: true, Headers: []string{"authorization", "COOKIE"}}))
	require.Len(t, got, len(want))
	for name, values := range want {
		require.Equal(t, values, got["http.response.header."+name], name)
	}
	plain := listed(m.attributes(httpexchange.SampleAttributes, sampledRequest, &Redaction{}))
	require.Equal(t, []string{"Bearer secret"}, plain["http.request.header.authorization"], "nothing was asked to be left out")
	require.Equal(t, []string{"https://shop/?card=4111&x#top"}, plain["http.request.header.referer"])
}

// TestOmittedFields checks that of a head longer than the kept bytes whole fields are left out, with their continuation lines.
func TestOmittedFields(t *testing.T) {
	kept := contents(nil)
	kept.Head = 40
	content := kept.New(1, l7.Opening{})
	for _, line := range []string{" begins: nothing", "Accept: a", "Authorization: Bearer and more than is kept", " secret", "\tsecret", "Host: b", " c"} {
		content.AddField([]byte(line))
	}
	m := newSampledMessage(&l7.Side{Known: true, Ended: true, Content: content}, 17, BodyRule{}, wall)
	list := m.attributes(httpexchange.SampleAttributes, sampledRequest, &Redaction{})
	require.Equal(t, map[string][]string{"http.request.header.accept": {"a"}, "http.request.header.host": {"b c"}}, listed(list))
	require.Equal(t, int64(4), values(list)["ebpf.sample.fields.omitted"])
}

// TestSampleLogs checks that a sample is exported as its request, its response and the calls, with its trace and one id.
func TestSampleLogs(t *testing.T) {
	e := carrying(l7.RoleClient, recorded, 503)
	kept := contents(nil)
	e.Request.Content = kept.New(math.MaxUint64, l7.Opening{})
	wire := l7.Wire{Counted: true, Packets: 3, RTT: 50_000}
	e.Request.Content.AddCall(l7.Call{Direction: l7.Write, Began: 5e9, Ended: 5.001e9, Wire: wire}, 0)
	e.Request.Content.EndCall(100)
	e.Response.Content = kept.New(math.MaxUint64, l7.Opening{})
	e.Response.Content.AddCall(l7.Call{Direction: l7.Read, Began: 5.1e9, Ended: 5.6e9}, 0)
	e.Response.Content.EndCall(10)
	for i := range int64(9) {
		e.Response.Content.AddCall(l7.Call{Direction: l7.Read, Began: 5.6e9 + i, Ended: 5.7e9, Length: 110}, 10)
	}
	e.Response.Content.AddBody([]byte("no"), 2)
	e.Response.First = 5.6e9
	j := NewJournal(JournalConfig{Samples: SamplesConfig{Rules: []Rule{{On5xx: true, Response: BodyRule{MaxBytes: 10}}}, PerSecond: 1}, Bytes: plenty})
	j.Add(Connection{Subject: someone}, e, "/users/{id}", wall)
	kept.Left = 0
	logs := j.Take(AsSample)[0].Samples([]model.Attribute{model.Text("network.peer.address", "192.0.2.1")}, wall(9e9))
	require.Len(t, logs, 2+1+8)
	id := values(logs[0].Attributes)["ebpf.sample.id"]
	require.Len(t, id, 16)
	for i, l := range logs {
		of := values(l.Attributes)
		require.Len(t, l.Attributes, len(of), "no key comes twice")
		require.Equal(t, "ebpf.request.sample", l.Event)
		require.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", hex.EncodeToString(l.TraceID[:]))
		require.Equal(t, "00f067aa0ba902b7", hex.EncodeToString(l.SpanID[:]))
		require.Equal(t, model.Error, l.Severity)
		require.Equal(t, id, of["ebpf.sample.id"])
		require.Equal(t, "client", of["ebpf.role"])
		require.Equal(t, "192.0.2.1", of["network.peer.address"])
		want := map[bool]any{true: "/users/17"}[i < 2]
		require.Equal(t, want, of["url.path"])
	}
	request, response, sent, read := values(logs[0].Attributes), values(logs[1].Attributes), values(logs[2].Attributes), values(logs[3].Attributes)
	require.Equal(t, wall(5e9), logs[0].Time)
	require.Equal(t, "request", request["ebpf.sample"])
	require.Equal(t, int64(100), request["ebpf.sample.bytes"])
	require.NotContains(t, request, "ebpf.body.content")
	require.Equal(t, wall(5.6e9), logs[1].Time)
	require.Equal(t, "response", response["ebpf.sample"])
	require.Equal(t, "no", response["ebpf.body.content"])
	require.Equal(t, int64(1000), response["ebpf.sample.bytes"])
	require.InDelta(t, 0.1, response["ebpf.sample.duration"], 1e-9)
	require.Equal(t, int64(2), response["ebpf.sample.calls.omitted"])
	require.Equal(t, wall(5e9), logs[2].Time)
	require.Equal(t, "syscall", sent["ebpf.sample"])
	require.Equal(t, "write", sent["ebpf.operation"])
	require.Equal(t, int64(100), sent["ebpf.sample.bytes"])
	require.InDelta(t, 0.001, sent["ebpf.sample.duration"], 1e-9)
	require.Equal(t, int64(3), sent["ebpf.sample.packets"])
	require.InDelta(t, 0.00005, sent["ebpf.sample.rtt"], 1e-12)
	require.NotContains(t, read, "ebpf.sample.packets")
	require.NotContains(t, read, "ebpf.sample.rtt")
	require.Equal(t, "read", read["ebpf.operation"])
	require.InDelta(t, 0.5, read["ebpf.sample.duration"], 1e-9)
	require.NotContains(t, read, "url.path")
}

// FuzzSample checks that for any message nothing panics, the exported body is bounded and no redacted header is exported.
func FuzzSample(f *testing.F) {
	f.Add([]byte("Content-Type: text/plain\nAuthorization: secret\n secret\n"), []byte("text"))
	f.Add([]byte("Content-Encoding: gzip, deflate\n:\n?=\n"), gzipped(f, "text"))
	f.Add([]byte("authorization : secret"), []byte("\xff"))
	f.Add([]byte(" "), []byte("000000000000000="))
	f.Add([]byte("content-type: application/grpc\ngrpc-encoding: gzip"), packed(f, "\x08\x96\x01"))
	f.Fuzz(func(t *testing.T, head, body []byte) {
		const most = 16
		kept := contents(nil)
		content := kept.New(1, l7.Opening{})
		for _, line := range bytes.Split(head, []byte("\n")) {
			content.AddField(line)
		}
		content.AddBody(body, int64(len(body))+1)
		m := newSampledMessage(&l7.Side{Known: true, Content: content}, l7.Unknown, BodyRule{MaxBytes: most}, wall)
		for _, a := range m.attributes(httpexchange.SampleAttributes, sampledRequest, &Redaction{Headers: []string{"authorization"}, Query: true}) {
			if a.Key == "ebpf.body.content" {
				require.LessOrEqual(t, len(a.Value.Text), most)
			}
			if a.Key == "http.request.header.authorization" {
				for _, value := range a.Value.List() {
					require.Equal(t, "[redacted]", value)
				}
			}
		}
		content.Free()
		require.Equal(t, 1<<20, kept.Left, "all room is given back")
	})
}
