// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// captureReason is a reason why requests are incomplete or lost.
type captureReason struct {
	name    string
	partial bool
	of      func(*capture) uint64
}

// captureReasons are all of them.
var captureReasons = slices.Concat([]captureReason{
	{"buffer_unread", false, func(c *capture) uint64 { return c.ring.failures.Load() }},
	{"connections_full", false, counted("connections_full")},
	{connectionsUnparsed, false, counted(connectionsUnparsed)},
	{requestAbandoned, false, counted(requestAbandoned)},
	{"io_uring_unseen", false, func(c *capture) uint64 { return c.unseen.of("") }},
	{"request_invalid", false, counted("request_invalid")},
	{"request_pipelined", false, counted("request_pipelined")},
	{"request_interrupted", true, counted("request_interrupted")},
	{"request_fields_unknown", true, counted("request_fields_unknown")},
	{"request_unpaired", true, counted("request_unpaired")},
	{"request_response_lost", true, counted("request_response_lost")},
	{"request_unattributed", false, func(c *capture) uint64 { return c.totals.Unattributed() }},
	{"request_undecided", false, func(c *capture) uint64 { return c.totals.Undecided() }},
	{"request_cut", true, counted("request_cut")},
	{"request_series_full", true, func(c *capture) uint64 { return c.totals.Unnamed().Series }},
	{"request_hosts_full", true, func(c *capture) uint64 { return c.totals.Unnamed().Hosts }},
	{"request_peers_full", true, func(c *capture) uint64 { return c.totals.Unnamed().Peers }},
	{"request_logs_full", false, counted("request_logs_full")},
	{"request_top_full", false, counted("request_top_full")},
	{"request_spans_full", false, counted("request_spans_full")},
	{"request_samples_full", false, counted("request_samples_full")},
	{"request_samples_limited", false, counted("request_samples_limited")},
	{"request_content_full", true, counted("request_content_full")},
}, dictionaryReasons(), opaqueReasons())

// dictionaryReasons returns one reason for each text of series that a process may have too many values of.
func dictionaryReasons() (reasons []captureReason) {
	for _, d := range protocol.Dictionaries() {
		reasons = append(reasons, captureReason{d.Reason, true, func(c *capture) uint64 { return c.totals.Unnamed().Texts[d.Reason] }})
	}
	return reasons
}

// opaqueReasons returns one reason for each library, and one for unknown ones.
func opaqueReasons() []captureReason {
	reasons := []captureReason{{"tls_opaque", false, func(c *capture) uint64 { return c.opaque.of("") }}}
	for _, library := range tls.Libraries {
		reasons = append(reasons, captureReason{"tls_opaque_" + string(library), false, func(c *capture) uint64 { return c.opaque.of(library) }})
	}
	return reasons
}

// counted returns a function that returns the number of losses in scope for a reason.
func counted(reason requests.LossReason) func(*capture) uint64 {
	return func(c *capture) uint64 { return c.lost.Of(reason) }
}

// attribute counts new losses for the process of a connection.
func (c *capture) attribute(s *stream) {
	of := s.connection.Subject
	if contents := c.sink.Contents; contents != nil && contents.Full > 0 {
		c.lost.Add(of, "request_content_full", contents.Full)
		contents.Full = 0
	}
	lost := c.stats
	c.stats = l7.Stats{}
	lost.Exchanges, lost.GivenUp = 0, 0
	if lost == (l7.Stats{}) {
		return
	}
	for reason, n := range map[requests.LossReason]uint64{
		"request_invalid": lost.Invalid, "request_pipelined": lost.Unkept, "request_interrupted": lost.Losses, "request_fields_unknown": lost.Unseen,
		"request_unpaired": lost.Unpaired, "request_response_lost": lost.Unanswered, "request_cut": lost.Cut,
	} {
		c.lost.Add(of, reason, n)
	}
}

// losses returns what was lost or is incomplete of requests.
func (c *capture) losses() []observe.Loss {
	list := make([]observe.Loss, len(captureReasons))
	for i, reason := range captureReasons {
		list[i] = observe.Loss{Probe: string(Name), Reason: reason.name, Count: reason.of(c), Incomplete: reason.partial}
	}
	return list
}
