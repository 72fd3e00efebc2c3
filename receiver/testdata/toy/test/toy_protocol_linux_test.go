// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package receiver

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// TestToyProtocol checks that a protocol of one folder and one line is configured, recognised, parsed, counted and exported on both sides.
func TestToyProtocol(t *testing.T) {
	configure := func(names ...any) error {
		config := createDefaultConfig().(*Config)
		err := confmap.NewFromStringMap(map[string]any{"observe": map[string]any{"network": map[string]any{"protocols": names}}}).Unmarshal(config)
		require.NoError(t, err)
		return confmap.Validate(config)
	}
	require.NoError(t, configure("toy", "http"))
	require.ErrorContains(t, configure("gopher"), ", dns, toy")
	require.Contains(t, protocol.Monitored(), "toy")
	var exported []string
	for _, d := range network.Descriptors() {
		exported = append(exported, d.Name)
	}
	for _, name := range []string{"toy.client.operation.duration", "toy.server.operations.untimed", "toy.client.rows", "toy.client.sent.messages"} {
		require.Contains(t, exported, name)
	}

	client, server := newToySide(l7.RoleClient), newToySide(l7.RoleServer)
	say := func(at int64, request bool, text string) {
		position := uint32(at)
		for _, s := range []*toySide{client, server} {
			direction := l7.Write
			if request != (s.role == l7.RoleClient) {
				direction = l7.Read
			}
			s.conn.Feed(l7.Piece{Direction: direction, Began: at, Ended: at, Length: int64(len(text)), Data: []byte(text), Position: position})
			at++
		}
	}
	say(1e6, true, "PREPARE 7 orders\n")
	say(2e6, true, "RUN 7 SECRET\nPUT orders,bills SECRET\n")
	say(9e6, false, "OK 5\nERR full\n")
	say(10e6, true, "RUN 8 SECRET\n")
	say(19e6, false, "OK 0\n")
	say(20e6, true, "PUT more,than,fit SECRET\n")
	client.conn.Ending(l7.ClosedLocally, 25e6)
	client.conn.Close()
	server.conn.Ending(l7.ClosedRemotely, 25e6)
	server.conn.Close()

	require.Equal(t, []string{
		"toy.client.operation.duration otel.metric.overflow=true: 1 of 0.005",
		"toy.client.operation.duration toy.method=PUT toy.topics=orders,bills error.type=full server.address=192.0.2.1 server.port=7 ebpf.role=client network.protocol.name=toy: 1 of 0.007",
		"toy.client.operation.duration toy.method=RUN toy.topics=* server.address=192.0.2.1 server.port=7 ebpf.role=client network.protocol.name=toy: 1 of 0.009",
		"toy.client.operation.duration toy.method=RUN toy.topics=orders server.address=192.0.2.1 server.port=7 ebpf.role=client network.protocol.name=toy: 1 of 0.007",
		"toy.client.rows toy.method=RUN toy.topics=* server.address=192.0.2.1 server.port=7 ebpf.role=client network.protocol.name=toy: 1 of 0",
		"toy.client.rows toy.method=RUN toy.topics=orders server.address=192.0.2.1 server.port=7 ebpf.role=client network.protocol.name=toy: 1 of 5",
		"toy.client.sent.messages otel.metric.overflow=true: 3",
		"toy.client.sent.messages toy.topic=bills ebpf.role=client network.protocol.name=toy: 1",
		"toy.client.sent.messages toy.topic=orders ebpf.role=client network.protocol.name=toy: 1",
	}, client.metrics(t))
	require.Equal(t, []string{
		"toy.server.operation.duration otel.metric.overflow=true: 1 of 0.005",
		"toy.server.operation.duration toy.method=PUT toy.topics=orders,bills error.type=full ebpf.role=server network.protocol.name=toy: 1 of 0.007",
		"toy.server.operation.duration toy.method=RUN toy.topics=* ebpf.role=server network.protocol.name=toy: 1 of 0.009",
		"toy.server.operation.duration toy.method=RUN toy.topics=orders ebpf.role=server network.protocol.name=toy: 1 of 0.007",
		"toy.server.rows toy.method=RUN toy.topics=* ebpf.role=server network.protocol.name=toy: 1 of 0",
		"toy.server.rows toy.method=RUN toy.topics=orders ebpf.role=server network.protocol.name=toy: 1 of 5",
	}, server.metrics(t))
	require.Equal(t, map[string]uint64{"toy_topics_full": 4}, client.totals.Unnamed().Texts)

	failed := client.journal.Take(requests.AsLog)
	require.Len(t, failed, 2, "the one with an error, and the one that was given up")
	require.Equal(t, "toy.method=PUT toy.topics=orders,bills toy.value=? error.type=full server.address=192.0.2.1 server.port=7 ebpf.role=client ebpf.request.duration=0.007",
		toyText(failed[0].Log(&requests.Room{}, nil, time.Time{}).Attributes))
	require.Contains(t, toyText(failed[1].Log(&requests.Room{}, nil, time.Time{}).Attributes), "error.type=timeout")

	spans := append(client.journal.Take(requests.AsSpan), server.journal.Take(requests.AsSpan)...)
	local := func(*requests.Request) requests.Local { return requests.Local{Here: true} }
	made, _ := requests.Pair(spans, local, time.Now(), true)
	require.Len(t, made, 8)
	first, served := made[0].Span(nil), made[4].Span(nil)
	require.Equal(t, "RUN orders", first.Name)
	require.Equal(t, first.SpanID, served.ParentID)
	require.NotContains(t, toyText(first.Attributes), "SECRET")
}

// toySide is one process of a connection, and what it has exchanged.
type toySide struct {
	role    l7.Role
	conn    *l7.Conn
	totals  *requests.Totals
	journal *requests.Journal
}

func newToySide(role l7.Role) *toySide {
	redact := requests.Redaction{Query: true}
	s := &toySide{role: role, totals: requests.NewTotals(redact), journal: requests.NewJournal(requests.JournalConfig{
		Which: requests.SlowOrError, Slow: time.Second, Spans: true, Redact: redact, Bytes: 1 << 20,
	})}
	conn := requests.Connection{Subject: observe.SubjectKey{PID: 1 + uint32(role)}}
	if role == l7.RoleClient {
		conn.Peer = netip.MustParseAddrPort("192.0.2.1:7")
	}
	var protocols []l7.Protocol
	for _, d := range protocol.All() {
		protocols = append(protocols, d.New(l7.Options{Records: true}))
	}
	s.conn = l7.NewConn(protocols, l7.TCP, l7.RoleUnknown, &l7.Sink{Limits: l7.DefaultLimits(), Stats: &l7.Stats{}, Exchange: func(e *l7.Exchange) {
		if target, counted := s.totals.Add(conn, e); counted {
			s.journal.Add(conn, e, target, func(ns int64) time.Time { return time.Unix(0, ns) })
		}
	}})
	return s
}

// metrics are the points of all series, as text.
func (s *toySide) metrics(t *testing.T) (points []string) {
	s.totals.Name(func(observe.SubjectKey) (*model.Process, bool) { return &model.Process{}, true })
	all := s.totals.Metrics(time.Now(), l7.RoleUnknown)
	require.Len(t, all, 1)
	for _, metric := range all[0].Metrics {
		var of []string
		for _, p := range metric.Points {
			value := fmt.Sprint(p.Int)
			if p.Histogram != nil {
				value = fmt.Sprintf("%d of %.3g", p.Histogram.Count, p.Histogram.Sum)
			}
			of = append(of, fmt.Sprintf("%s %s: %s", metric.Name, toyText(p.Attributes), value))
		}
		slices.Sort(of)
		points = append(points, of...)
	}
	return points
}

// toyText is a list of attributes as text.
func toyText(list []model.Attribute) (text string) {
	for i, a := range list {
		if i > 0 {
			text += " "
		}
		text += a.Key + "="
		switch a.Value.Type {
		case model.IntAttribute:
			text += fmt.Sprint(a.Value.Int)
		case model.BoolAttribute:
			text += fmt.Sprint(a.Value.Int != 0)
		case model.FloatAttribute:
			text += fmt.Sprintf("%.3g", a.Value.Float())
		default:
			text += a.Value.Text
		}
	}
	return text
}
