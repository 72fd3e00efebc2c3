// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// States of [TLS.States], in addition to [NetworkBare].
const (
	TLSNone      = "network, nginx in scope, capture none"
	TLSEmpty     = "empty programs at the same functions of OpenSSL"
	TLSEmptyBoth = "the same, and where the system calls that are observed begin and end"
	TLSHeaders   = "network, nginx in scope, capture headers, tls openssl"
)

// TLS is nginx's side of what requests through OpenSSL cost.
type TLS struct {
	States []Network `json:",omitempty"`
	// Programs are those that run in the last of the states, by the kernel's statistics.
	Programs []Program `json:",omitempty"`
}

// Program is one of BPF.
type Program struct {
	Name   string
	Runs   float64 // for each request, on the whole host
	PerRun time.Duration
}

// maxTLSHeaders is nginx's CPU time for a request by that with empty programs at the same functions.
const maxTLSHeaders = 1.10

// stateOf returns a state that was measured, or an empty one.
func (t *TLS) stateOf(state string) *Network {
	if at := slices.IndexFunc(t.States, func(n Network) bool { return n.State == state }); at >= 0 {
		return &t.States[at]
	}
	return &Network{}
}

func (t *TLS) print(w io.Writer) {
	if len(t.States) > 0 {
		fmt.Fprintf(w, "\nWhat requests through OpenSSL add: nginx's CPU time for a request, median of %d turns; ratios of each turn: median (quartiles)\n", len(t.States[0].Turns))
		fmt.Fprintf(w, "  state\tCPU time\tto bare\tto empty\tto empty, calls too\trequests/s\n")
	}
	bare, empty, both := t.stateOf(NetworkBare), t.stateOf(TLSEmpty), t.stateOf(TLSEmptyBoth)
	for i := range t.States {
		s := &t.States[i]
		fmt.Fprintf(w, "  %s\t%d ns\t%s\t%s\t%s\t%.0f k\n", s.State, s.median().Nanoseconds(), turnRatios(s, bare), turnRatios(s, empty), turnRatios(s, both), s.rate()/1000)
	}
	if len(t.Programs) > 0 {
		fmt.Fprintf(w, "\nPrograms meanwhile, by the kernel's statistics, which take some 45 ns of each run themselves\n")
		fmt.Fprintf(w, "  program\truns for a request\teach\tfor a request\n")
	}
	for _, p := range t.Programs {
		fmt.Fprintf(w, "  %s\t%.2f\t%d ns\t%.0f ns\n", p.Name, p.Runs, p.PerRun.Nanoseconds(), p.Runs*float64(p.PerRun.Nanoseconds()))
	}
}

func (t *TLS) judge(add addTarget) {
	got := turnRatios(t.stateOf(TLSHeaders), t.stateOf(TLSEmpty))
	add("tls: nginx's CPU time for a request through OpenSSL, capture headers, by that with empty programs at the same functions",
		fmt.Sprintf("%.2f", maxTLSHeaders), got.String(), got.median > 0, got.median <= maxTLSHeaders)
}
