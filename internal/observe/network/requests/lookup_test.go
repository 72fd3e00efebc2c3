// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// askedFor returns a lookup that took a millisecond.
func askedFor(name string, kind uint16, errorType string) *l7.Exchange {
	return &l7.Exchange{
		Protocol: "dns", Role: l7.RoleClient, ErrorType: errorType,
		Request:   l7.Side{Known: true, Ended: true, First: 5e9, Last: 5e9, Body: 30, Whole: 30},
		Response:  l7.Side{Known: true, Ended: true, First: 5e9 + 1e6, Last: 5e9 + 1e6, Body: 60, Whole: 60},
		Operation: &dns.Exchange{Questions: []dns.Question{{Name: []byte(name), Type: kind, Class: 1}}, QuestionCount: 1},
	}
}

// TestLookupLog checks all that is exported of a lookup.
func TestLookupLog(t *testing.T) {
	conn := Connection{Peer: netip.MustParseAddrPort("192.0.2.53:53")}
	log := newRequest(conn, askedFor("db.example.", 28, "SERVFAIL"), "", &Redaction{}, wall).Log(
		&Room{}, []model.Attribute{model.Text("network.transport", "udp")}, wall(9e9))
	require.Equal(t, "ebpf.request", log.Event)
	require.Equal(t, model.Error, log.Severity)
	require.Equal(t, wall(5.001e9), log.Time)
	require.Equal(t, map[string]any{
		"ebpf.role": "client", "ebpf.request.duration": 0.001, "dns.question.name": "db.example", "ebpf.dns.question.type": "AAAA",
		"error.type": "SERVFAIL", "network.protocol.name": "dns", "server.address": "192.0.2.53", "server.port": int64(53),
		"network.transport": "udp",
	}, values(log.Attributes))

	root := values(newRequest(conn, askedFor(".", 257, ""), "", &Redaction{}, wall).Log(&Room{}, nil, wall(9e9)).Attributes)
	require.Equal(t, ".", root["dns.question.name"])
	require.Equal(t, "TYPE257", root["ebpf.dns.question.type"])
	require.NotContains(t, root, "error.type")
}

// TestWhichLookupsAreExported checks that NXDOMAIN is no failure, and that lookups are no spans.
func TestWhichLookupsAreExported(t *testing.T) {
	for errorType, want := range map[string]struct {
		exported bool
		severity model.Severity
	}{"": {false, model.Info}, "NXDOMAIN": {false, model.Info}, "SERVFAIL": {true, model.Error}, l7.ErrorNoResponse: {true, model.Error}} {
		for _, which := range []Which{SlowOrError, AllRequests} {
			j := NewJournal(JournalConfig{Which: which, Slow: time.Second, Top: 1, Spans: true, Bytes: plenty})
			j.Add(Connection{Subject: someone}, askedFor("a.", 1, errorType), "", wall)
			taken := j.Take(AsLog)
			if which == SlowOrError && !want.exported {
				require.Empty(t, taken, errorType)
			} else {
				require.Len(t, taken, 1, errorType)
				require.Equal(t, want.severity, taken[0].Log(&Room{}, nil, time.Time{}).Severity, errorType)
			}
			require.Empty(t, j.Take(AsSpan))
			require.Empty(t, j.TakeTop(), "none was slow")
		}
	}
}
