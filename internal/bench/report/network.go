// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// States of [Network.State].
const (
	NetworkBare      = "nothing attached"
	NetworkEmpty     = "empty programs where the system calls that are observed begin and end"
	NetworkEmptySame = "empty programs at those tracepoints of system calls that network uses"
	NetworkOutside   = "network, nginx out of scope"
	NetworkInside    = "network, nginx in scope"
)

// Network is what nginx takes for a request in one state, in turns with the other states.
type Network struct {
	State string
	Turns []NetworkTurn
}

// NetworkTurn is one run of wrk.
type NetworkTurn struct {
	CPU         time.Duration // of nginx for each request that wrk has counted
	RequestRate float64       // per second
}

// Connections is the memory and time that many open connections take, or many short ones.
type Connections struct {
	// Ends that are observed of each: 1, the one that accepts, or 2.
	Ends int
	// Open at the same time or, with Elapsed, one after the other.
	Opened, Accepted int
	Elapsed          time.Duration
	// Bare is how many were opened in as much time without observation.
	Bare int
	// Maps is the memory of the kernel's maps by the kernel's own account, Sockets by how much the kernel's small objects
	// have grown, which is what is remembered of sockets, Anon by how much this process has (RssAnon).
	Maps, Sockets, Anon uint64
	// Drains are the times that it took to scan for new sockets; the first scan discovers those from before the start.
	Drains []time.Duration
	// Reports are the times that reports took, each after one of those.
	Reports []time.Duration
	// Counted is what the observation says: connections that are open, or connects and accepts.
	Counted int64
	// Lost is what its counters of losses say, by reason; Incomplete is what was counted, but not as what it was.
	Lost, Incomplete map[string]uint64
}

// Memory is all of it.
func (c *Connections) Memory() uint64 { return c.Maps + c.Sockets + c.Anon }

// networkOf returns a state that was measured, or an empty one.
func (r *Report) networkOf(state string) *Network {
	for i := range r.Network {
		if r.Network[i].State == state {
			return &r.Network[i]
		}
	}
	return &Network{}
}

// median of the CPU time.
func (n *Network) median() time.Duration {
	var all []time.Duration
	for _, turn := range n.Turns {
		all = append(all, turn.CPU)
	}
	return median(all)
}

// rate is the mean of the requests per second.
func (n *Network) rate() float64 {
	rate := 0.0
	for _, turn := range n.Turns {
		rate += turn.RequestRate / float64(len(n.Turns))
	}
	return rate
}

// ratios are the quartiles of a state's CPU time by that of another, turn by turn; all 0 if there is none.
type ratios struct{ lower, median, upper float64 }

func turnRatios(a, b *Network) ratios {
	var all []float64
	for i := range min(len(a.Turns), len(b.Turns)) {
		all = append(all, float64(a.Turns[i].CPU)/float64(b.Turns[i].CPU))
	}
	slices.Sort(all)
	return ratios{lower: quantile(all, 0.25), median: quantile(all, 0.5), upper: quantile(all, 0.75)}
}

// quantile of what is sorted, between two values in proportion; 0 of nothing.
func quantile(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := part * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

func (q ratios) String() string { return fmt.Sprintf("%.3f (%.3f–%.3f)", q.median, q.lower, q.upper) }

func (r *Report) printNetwork(w io.Writer) {
	if len(r.Network) > 0 {
		fmt.Fprintf(w, "\nnginx answers wrk from memory: nginx's CPU time for a request, median of %d turns; ratios of each turn: median (quartiles)\n", len(r.Network[0].Turns))
		fmt.Fprintf(w, "  state\tCPU time\tto bare\tto empty\tto empty, same\trequests/s\n")
		bare, empty, same := r.networkOf(NetworkBare), r.networkOf(NetworkEmpty), r.networkOf(NetworkEmptySame)
		for i := range r.Network {
			s := &r.Network[i]
			fmt.Fprintf(w, "  %s\t%d ns\t%s\t%s\t%s\t%.0f k\n", s.State, s.median().Nanoseconds(), turnRatios(s, bare), turnRatios(s, empty), turnRatios(s, same), s.rate()/1000)
		}
	}
	for i := range r.OpenConnections {
		r.OpenConnections[i].print(w, "Open connections")
	}
	if r.ShortConnections != nil {
		r.ShortConnections.print(w, "Connections that are closed at once")
	}
}

func (c *Connections) print(w io.Writer, name string) {
	fmt.Fprintf(w, "\n%s, observed at %d of the two ends\n", name, c.Ends)
	fmt.Fprintf(w, "  opened, accepted, by their own account\t%d, %d\n", c.Opened, c.Accepted)
	if c.Elapsed > 0 {
		fmt.Fprintf(w, "  per second, and without observation\t%.0f, %.0f\n", perSecond(c.Opened, c.Elapsed), perSecond(c.Bare, c.Elapsed))
	}
	fmt.Fprintf(w, "  counted\t%d\n", c.Counted)
	fmt.Fprintf(w, "  lost, by reason\t%s\n", listed(c.Lost))
	fmt.Fprintf(w, "  counted incompletely, by reason\t%s\n", listed(c.Incomplete))
	fmt.Fprintf(w, "  memory: maps, for sockets, RssAnon\t%s, %s, %s\n", mib(c.Maps), mib(c.Sockets), mib(c.Anon))
	fmt.Fprintf(w, "  time of drains\t%s\n", times(c.Drains))
	fmt.Fprintf(w, "  time of reports\t%s\n", times(c.Reports))
}

func perSecond(n int, during time.Duration) float64 { return float64(n) / during.Seconds() }

func times(list []time.Duration) string {
	var all []string
	for _, took := range list {
		all = append(all, short(took))
	}
	return strings.Join(all, ", ")
}

func listed(counts map[string]uint64) string {
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, fmt.Sprintf("%s %d", reason, counts[reason]))
	}
	return strings.Join(list, ", ")
}

// The targets of network.
const (
	maxNetworkInside  = 1.10
	maxNetworkOutside = 1.03
	manyConnections   = 100_000
	maxConnectionsMem = 60_000_000
	maxReport         = 250 * time.Millisecond
	// maxMiscounted is how far counts may be from the programs' own, losses that were counted apart.
	maxMiscounted = 0.001
	shortRate     = 50_000 // per second
)

func (r *Report) judgeNetwork(add addTarget) {
	empty := r.networkOf(NetworkEmpty)
	for _, c := range []struct {
		name, state string
		limit       float64
	}{{"in scope", NetworkInside, maxNetworkInside}, {"out of scope", NetworkOutside, maxNetworkOutside}} {
		got := turnRatios(r.networkOf(c.state), empty)
		add("network: nginx's CPU time for a request, "+c.name+", by that with empty programs", fmt.Sprintf("%.2f", c.limit),
			got.String(), got.median > 0, got.median <= c.limit)
	}
	open := &Connections{}
	if len(r.OpenConnections) > 0 {
		open = &r.OpenConnections[0]
	}
	measured := open.Opened >= manyConnections
	name := fmt.Sprintf("network: %d open connections: ", manyConnections)
	add(name+"counted", fmt.Sprint(open.Opened), fmt.Sprint(open.Counted), measured, open.Counted == int64(open.Opened))
	add(name+"memory, kernel and user", megabytes(maxConnectionsMem), megabytes(open.Memory()), measured, open.Memory() <= maxConnectionsMem)
	longest := time.Duration(0)
	for _, c := range r.OpenConnections {
		longest = slices.Max(append(c.Reports, longest))
	}
	duration(add, name+"longest report, of one end or both", maxReport, longest, measured)
	r.ShortConnections.judge(add)
}

// judge judges connections that are closed at once: the rate is what the machine achieves, and is stated with the figure.
func (c *Connections) judge(add addTarget) {
	measured := c != nil
	if c == nil {
		c = &Connections{}
	}
	off := int64(c.Opened+c.Accepted) - c.Counted
	var lost uint64
	for _, n := range c.Lost {
		lost += n
	}
	missing := max(off, -off) - int64(lost)
	figure := fmt.Sprintf("%d of %d not counted, %d of these in loss counters", off, c.Opened+c.Accepted, lost)
	if c.Elapsed > 0 {
		figure += fmt.Sprintf(", at %.0f k/s (wanted: %d k/s; without observation: %.0f k/s)", perSecond(c.Opened, c.Elapsed)/1000, shortRate/1000,
			perSecond(c.Bare, c.Elapsed)/1000)
	}
	add("network: connections that are closed at once: connects and accepts against the programs' own count",
		fmt.Sprintf("%.1f %%", 100*maxMiscounted), figure, measured, float64(missing) <= maxMiscounted*float64(c.Opened+c.Accepted))
}
