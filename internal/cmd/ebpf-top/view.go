// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/overview"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/terminal"
)

// data is what a frame shows.
type data struct {
	// top are the functions of the last interval, nil before the first one.
	top         *top
	requests    []overview.Request
	connections []overview.Connection
	triggers    []overview.Trigger
	// reduced are the kinds that the receiver observes less of.
	reduced []overview.Level
	// notice is shown instead of the functions while there are none, footer below everything.
	notice, footer string
}

// tab is what is shown: everything, or one of the panes.
type tab int

const (
	tabAll tab = iota
	tabFunctions
	tabRequests
	tabConnections
	tabTriggers
	tabs
)

var tabNames = [tabs]string{"All", "Functions", "Requests", "Connections", "Triggers"}

// view is what the user has chosen.
type view struct {
	tab     tab
	byTotal bool
	order   requestOrder
	paused  bool
	help    bool
}

// press applies a key and reports whether it ends the program.
func (v *view) press(k terminal.Key) (quit bool) {
	if v.help && k != terminal.Interrupt {
		v.help = false
		return false
	}
	switch k {
	case 'q', 'Q', terminal.Interrupt:
		return true
	case '0', '1', '2', '3', '4':
		v.tab = tab(k - '0')
	case terminal.Tab, terminal.Right:
		v.tab = (v.tab + 1) % tabs
	case terminal.BackTab, terminal.Left:
		v.tab = (v.tab + tabs - 1) % tabs
	case 's':
		if v.tab == tabRequests {
			v.order = (v.order + 1) % requestOrders
		} else {
			v.byTotal = !v.byTotal
		}
	case 'p', ' ':
		v.paused = !v.paused
	case 'h', '?':
		v.help = true
	}
	return false
}

const helpText = `
  0          all panes at once
  1 2 3 4    functions, requests, connections, triggers
  Tab → ←    the next or the previous of them
  s          order: functions by self or total; requests by rate, errors or p95
  p          pause, and go on
  q Ctrl-C   quit

  Functions are those of the last interval. Requests and connections are those
  of the last minute: requests per second, share of errors, median and 95th
  percentile of the duration, response statuses. Triggers are policies that
  fired, and what became of the profile that they started.

  Any key closes this page.`

// frame is the screen: a headline, the tabs, the panes, and a line about the keys.
func (v *view) frame(d data, columns, lines int) []terminal.Line {
	out := []terminal.Line{{Text: summary(d), Style: terminal.Bold}}
	if text := reduced(d.reduced); text != "" {
		out = append(out, terminal.Line{Text: text, Style: terminal.Red})
	}
	out = append(out, terminal.Line{Text: v.tabLine(), Style: terminal.Plain})
	last := terminal.Line{Text: v.keyLine(d), Style: terminal.Faint}
	height := max(0, lines-len(out)-1)
	var body []terminal.Line
	if v.help {
		for _, l := range strings.Split(helpText, "\n") {
			body = append(body, terminal.Line{Text: l})
		}
	} else {
		body = v.body(d, columns, height)
	}
	for len(body) < height {
		body = append(body, terminal.Line{})
	}
	out = append(append(out, body[:height]...), last)
	for i := range out {
		out[i].Text = terminal.Cut(out[i].Text, columns)
	}
	return out[:min(len(out), max(1, lines))]
}

// summary is the first line.
func summary(d data) string {
	if d.top == nil {
		return "ebpf-top  " + d.notice
	}
	return headline(d.top)
}

// reductions are what levels of each kind make of what is observed, of 2^level.
var reductions = map[string]string{
	"on_cpu": "on_cpu 1/%d of samples", "off_cpu": "off_cpu %d × min_block", "memory": "memory 1/%d of samples", "network": "network 1/%d of connections",
}

// noRequests is the level at which network captures none.
const noRequests = 6

// reduced says what the receiver observes less of to keep to its limits, or nothing.
func reduced(levels []overview.Level) string {
	var parts []string
	for _, l := range levels {
		form, known := reductions[l.Kind]
		switch {
		case !known:
			parts = append(parts, printable(l.Kind))
		case l.Kind == "network" && l.Level >= noRequests:
			parts = append(parts, "network no requests")
		default:
			parts = append(parts, fmt.Sprintf(form, int64(1)<<min(l.Level, noRequests)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Reduced by limits: " + strings.Join(parts, ", ")
}

// tabLine names the tabs, the one that is shown in brackets.
func (v *view) tabLine() string {
	var parts []string
	for i, name := range tabNames {
		part := string(rune('0'+i)) + " " + name
		if tab(i) == v.tab {
			part = "[" + part + "]"
		} else {
			part = " " + part + " "
		}
		parts = append(parts, part)
	}
	if v.paused {
		parts = append(parts, "  PAUSED: p goes on")
	}
	return strings.Join(parts, " ")
}

// keyLine is the last line.
func (v *view) keyLine(d data) string {
	line := "q quit  Tab pane  s order  p pause  ? help"
	if d.footer != "" {
		line += "  " + d.footer
	}
	return line
}

// body are the panes of the tab, in height lines.
func (v *view) body(d data, columns, height int) []terminal.Line {
	panes := [tabs]pane{
		tabFunctions: functionPane(d, v.byTotal, columns, height), tabRequests: requestPane(d.requests, v.order, columns),
		tabConnections: connectionPane(d.connections, columns), tabTriggers: triggerPane(d.triggers, columns),
	}
	if v.tab != tabAll {
		return panes[v.tab].lines(height, columns)
	}
	all := panes[tabFunctions:]
	var out []terminal.Line
	for i, n := range share(all, height) {
		out = append(out, all[i].lines(n, columns)...)
	}
	return out
}

// weights are the shares of the lines that panes get when all are shown and all have enough to fill them.
var weights = []int{6, 5, 4, 2}

// share divides height among panes: each gets what it needs, of its weight at most, and then what others leave.
func share(panes []pane, height int) []int {
	sum, left := 0, height
	for _, w := range weights {
		sum += w
	}
	out := make([]int, len(panes))
	for i, p := range panes {
		out[i] = min(p.height(), height*weights[i]/sum, left)
		left -= out[i]
	}
	for grown := true; grown && left > 0; {
		grown = false
		for i, p := range panes {
			if left > 0 && out[i] < p.height() {
				out[i]++
				left--
				grown = true
			}
		}
	}
	return out
}
