// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/overview"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/terminal"
)

// pane is a table.
type pane struct {
	header string
	rows   []terminal.Line
	// empty is shown instead of the rows while there are none.
	empty string
	// endless is set on a pane whose number of rows is of no interest.
	endless bool
}

// height is how many lines the pane needs.
func (p pane) height() int { return 1 + max(1, len(p.rows)) }

// lines are at most n lines of the pane. If there are more rows, the header ends with how many are shown.
func (p pane) lines(n, columns int) []terminal.Line {
	if n <= 0 {
		return nil
	}
	out := []terminal.Line{{Text: p.header, Style: terminal.Reverse}}
	if len(p.rows) == 0 {
		out = append(out, terminal.Line{Text: p.empty, Style: terminal.Faint})
	}
	out = append(out, p.rows...)
	if len(out) > n {
		out = out[:n]
		count := fmt.Sprintf(" %d of %d", n-1, len(p.rows))
		if left := columns - utf8.RuneCountInString(count); left > 0 && !p.endless {
			out[0].Text = fit(p.header, left) + count
		}
	}
	return out
}

// functionPane lists the hottest functions, as many as fit.
func functionPane(d data, byTotal bool, columns, height int) pane {
	if d.top == nil {
		return pane{header: " SELF%  TOTAL%   SAMPLES  FUNCTION", empty: d.notice}
	}
	lines := functionTable(d.top, height, byTotal, columns)
	p := pane{header: lines[0], empty: "  no samples of CPU time in the last interval", endless: true}
	for _, l := range lines[1:] {
		p.rows = append(p.rows, terminal.Line{Text: l})
	}
	if w := warnings(d.top); w != "" {
		p.rows = slices.Insert(p.rows, 0, terminal.Line{Text: "  " + w, Style: terminal.Faint})
	}
	return p
}

// requestOrder is what orders the requests.
type requestOrder int

const (
	byRate requestOrder = iota
	byErrors
	byP95
	requestOrders
)

// requestPane lists endpoints; those with errors are red.
func requestPane(list []overview.Request, order requestOrder, columns int) pane {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b overview.Request) int {
		switch order {
		case byErrors:
			return cmp.Compare(b.Errors*float64(b.Count), a.Errors*float64(a.Count))
		case byP95:
			return cmp.Compare(b.P95, a.P95)
		}
		return 0
	})
	mark := [requestOrders]string{"REQ/s", "ERR%", "P95"}
	mark[order] = "↓" + mark[order]
	var services, endpoints []string
	for _, r := range list {
		services, endpoints = append(services, serviceName(r.Service)), append(endpoints, printable(r.Endpoint))
	}
	const numbers = 6 + 1 + 5 + 1 + 6 + 1 + 6 + 2 + 4 + 1
	widths := divide(columns-numbers-2, 16, wish{services, 12, "SERVICE"}, wish{endpoints, 18, "ENDPOINT"})
	p := pane{empty: "  no requests yet: HTTP, gRPC and DNS of all processes are shown here, in plain text or through TLS libraries"}
	row := func(rate, errors, median, p95, side, service, endpoint, status string) string {
		return fmt.Sprintf("%6s %5s %6s %6s  %-4s %s %s %s", rate, errors, median, p95, side, fit(service, widths[0]), fit(endpoint, widths[1]), status)
	}
	p.header = row(mark[byRate], mark[byErrors], "P50", mark[byP95], "SIDE", "SERVICE", "ENDPOINT", "STATUS")
	for i, r := range list {
		median, p95 := "-", "-"
		if r.Timed {
			median, p95 = seconds(r.Median), seconds(r.P95)
		}
		var statuses []string
		for _, s := range r.Statuses {
			statuses = append(statuses, printable(s.String()))
		}
		l := terminal.Line{Text: row(decimal(r.Rate), fmt.Sprintf("%.1f", 100*r.Errors), median, p95, fit(sideName(r.Side), 4), services[i], endpoints[i], strings.Join(statuses, " "))}
		if r.Errors > 0 {
			l.Style = terminal.Red
		}
		p.rows = append(p.rows, l)
	}
	return p
}

// serviceName is a service without what says that no name is configured: the executable's name is left.
func serviceName(s string) string {
	return printable(strings.TrimPrefix(s, "unknown_service:"))
}

// sideName is short: columns are scarce.
func sideName(side string) string {
	switch side {
	case "server":
		return "srv"
	case "client":
		return "cli"
	}
	return side
}

// connectionPane lists pairs of service and peer; those with failed connections are red.
func connectionPane(list []overview.Connection, columns int) pane {
	var services, peers []string
	for _, c := range list {
		arrow := "← "
		if c.Role == "client" {
			arrow = "→ "
		}
		services, peers = append(services, serviceName(c.Service)), append(peers, arrow+serviceName(c.Peer))
	}
	const numbers = 5 + 1 + 6 + 1 + 6 + 1 + 6 + 1 + 7 + 1 + 6 + 2 + 6 + 1
	widths := divide(columns-numbers-1, 0, wish{services, 12, "SERVICE"}, wish{peers, 12, "PEER"})
	p := pane{empty: "  no connections yet"}
	row := func(open, sent, received, rtt, retransmits, failures, protocol, service, peer string) string {
		return fmt.Sprintf("%5s %6s %6s %6s %7s %6s  %-6s %s %s", open, sent, received, rtt, retransmits, failures, fit(protocol, 6), fit(service, widths[0]), peer)
	}
	p.header = row("OPEN", "SENT/s", "RECV/s", "RTT", "RETRANS", "FAILED", "PROTO", "SERVICE", "PEER")
	for i, c := range list {
		rtt := "-"
		if c.Timed {
			rtt = seconds(c.RTT)
		}
		l := terminal.Line{Text: row(grouped(c.Open), bytesText(c.Sent), bytesText(c.Received), rtt, grouped(c.Retransmits), grouped(c.Failures), printable(c.Protocol),
			services[i], terminal.Cut(peers[i], widths[1]))}
		if c.Failures > 0 {
			l.Style = terminal.Red
		}
		p.rows = append(p.rows, l)
	}
	return p
}

// triggerPane lists policies that fired, the latest first.
func triggerPane(list []overview.Trigger, columns int) pane {
	var policies, services []string
	for _, t := range list {
		policies, services = append(policies, printable(t.Policy)), append(services, serviceName(t.Service))
	}
	const numbers = 8 + 1 + 17 + 1
	widths := divide(columns-numbers-2, 24, wish{policies, 10, "POLICY"}, wish{services, 10, "SERVICE"})
	p := pane{empty: "  no policy has fired yet"}
	row := func(time, state, policy, service, cause string) string {
		return fmt.Sprintf("%-8s %-17s %s %s %s", time, fit(state, 17), fit(policy, widths[0]), fit(service, widths[1]), cause)
	}
	p.header = row("TIME", "PROFILE", "POLICY", "SERVICE", "CAUSE")
	for i, t := range list {
		l := terminal.Line{Text: row(t.Time.UTC().Format("15:04:05"), strings.TrimSpace(t.Kind+" "+t.State), policies[i], services[i], printable(t.Causes))}
		if t.State == "started" {
			l.Style = terminal.Bold
		}
		p.rows = append(p.rows, l)
	}
	return p
}

// wish is a column of texts that has least columns at least, as far as its texts need them.
type wish struct {
	texts  []string
	least  int
	header string
}

// divide returns the width of each column: what its texts need if all fit next to the reserved columns, else the least, and
// what is left goes to the last column.
func divide(columns, reserved int, wishes ...wish) []int {
	out := make([]int, len(wishes))
	left := columns - reserved
	need := make([]int, len(wishes))
	for i, w := range wishes {
		need[i] = utf8.RuneCountInString(w.header)
		for _, t := range w.texts {
			need[i] = max(need[i], utf8.RuneCountInString(t))
		}
		out[i] = min(need[i], w.least)
		left -= out[i]
	}
	for i := len(out) - 1; i >= 0 && left > 0; i-- {
		more := min(left, need[i]-out[i])
		out[i] += more
		left -= more
	}
	return out
}

// fit is s in exactly width columns.
func fit(s string, width int) string {
	s = terminal.Cut(s, max(1, width))
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}
