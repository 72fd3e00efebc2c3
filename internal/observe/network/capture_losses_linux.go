// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// captureReason is why requests are told incompletely, or not.
type captureReason struct {
	name string
	told bool
	of   func(*capture) uint64
}

// captureReasons are all of them.
var captureReasons = append([]captureReason{
	{"buffer_unread", false, func(c *capture) uint64 { return c.ring.failures.Load() }},
	{"connections_full", false, func(c *capture) uint64 { return c.crowded }},
	{"request_invalid", false, func(c *capture) uint64 { return c.stats.Invalid }},
	{"request_pipelined", false, func(c *capture) uint64 { return c.stats.Unkept }},
	{"request_interrupted", true, func(c *capture) uint64 { return c.stats.Losses }},
	{"request_fields_unknown", true, func(c *capture) uint64 { return c.stats.Unseen }},
	{"request_unpaired", true, func(c *capture) uint64 { return c.stats.Unpaired }},
	{"request_cut", true, func(c *capture) uint64 { return c.stats.Cut }},
	{"request_series_full", true, func(c *capture) uint64 {
		_, overflown := c.totals.Exchanges()
		return overflown
	}},
	{"request_routes_full", true, func(c *capture) uint64 { return c.totals.Unnamed().Routes }},
	{"request_hosts_full", true, func(c *capture) uint64 { return c.totals.Unnamed().Hosts }},
	{"call_methods_full", true, func(c *capture) uint64 { return c.totals.Unnamed().Methods }},
	{"lookup_names_full", true, func(c *capture) uint64 { return c.totals.Unnamed().Names }},
	{"request_logs_full", false, lostAs(requests.AsLog)},
	{"request_top_full", false, ofJournal((*requests.Journal).TopLost)},
	{"request_spans_full", false, lostAs(requests.AsSpan)},
	{"request_samples_full", false, lostAs(requests.AsSample)},
	{"request_samples_limited", false, ofJournal((*requests.Journal).Limited)},
	{"request_content_full", true, func(c *capture) uint64 {
		if c.sink.Contents == nil {
			return 0
		}
		return c.sink.Contents.Full
	}},
}, opaqueReasons()...)

// opaqueReasons are one for each library, and one for those that are not known.
func opaqueReasons() []captureReason {
	reasons := []captureReason{{"tls_opaque", false, func(c *capture) uint64 { return c.opaque.of("") }}}
	for _, library := range tls.Libraries {
		reasons = append(reasons, captureReason{"tls_opaque_" + string(library), false, func(c *capture) uint64 { return c.opaque.of(library) }})
	}
	return reasons
}

// lostAs is how many requests could not be told in a form.
func lostAs(form requests.Form) func(*capture) uint64 {
	return ofJournal(func(j *requests.Journal) uint64 { return j.Lost(form) })
}

// ofJournal is a number of those who are told one by one, 0 where nobody is.
func ofJournal(number func(*requests.Journal) uint64) func(*capture) uint64 {
	return func(c *capture) uint64 {
		if c.journal == nil {
			return 0
		}
		return number(c.journal)
	}
}

// losses are what was not told of requests, or not as what it was.
func (c *capture) losses() []observe.Loss {
	list := make([]observe.Loss, len(captureReasons))
	for i, reason := range captureReasons {
		list[i] = observe.Loss{Probe: string(observe.Network), Reason: reason.name, Count: c.told[i].Load(), Told: reason.told}
	}
	return list
}
