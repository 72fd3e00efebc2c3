// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"time"
)

// States of [Report.Requests], in addition to [NetworkBare] and [NetworkEmpty].
const (
	RequestsNone     = "network, nginx in scope, capture none"
	MonitorsAll      = "policies that use all of nginx's requests by their path"
	MonitorsOther    = "policies that use requests to another path"
	MonitorsReported = "policies that receive each of nginx's requests"
	RequestsHeaders  = "network, nginx in scope, capture headers: metrics and slow logs"
)

// Values of [Steady.Signals].
const (
	SteadyMetrics = "metrics and slow logs"
	SteadyLogs    = "metrics and a log for each"
)

// Steady is the Collector while a server in scope is asked at a constant rate.
type Steady struct {
	// Signals is what the receiver exports.
	Signals string
	// Rate is how many requests per second were asked for, Answered how many were by the client's own count.
	Rate     int
	Answered uint64
	// Counted is how many the receiver has exported.
	Counted uint64
	// CPU is what the Collector as a whole has used from before the first request until after the report with the last,
	// Engine what of it is the receiver's own work by its account.
	CPU, Engine time.Duration
	// Lost and Incomplete are what the receiver counts so, by probe and reason.
	Lost, Incomplete map[string]float64
}

// PerRequest is the Collector's CPU time.
func (s *Steady) PerRequest() time.Duration { return per(s.CPU, float64(s.Answered)) }

// Quantiles of durations.
type Quantiles struct{ P50, P99 time.Duration }

// Saturation compares the receiver's data with a client that sends requests as fast as they are
// answered.
type Saturation struct {
	// Buffer is the size of the ring buffer, in bytes.
	Buffer uint32
	// Answered is the client's own count, Counted the receiver's, Timed how many of these it has exported individually with a duration.
	Answered, Counted, Timed uint64
	Elapsed                  time.Duration
	// Lost and Incomplete are what the receiver counts so, by probe and reason.
	Lost, Incomplete map[string]uint64
	// Client is the requests' duration by the client's own clock, Exported the one that the receiver
	// exported.
	Client, Exported Quantiles
}

// missing are the requests that were neither counted nor in a counter of losses.
func (s *Saturation) missing() int64 {
	var lost uint64
	for _, n := range s.Lost {
		lost += n
	}
	return int64(s.Answered) - int64(s.Counted) - int64(lost)
}

// Latency is what requests to a server take with and without the receiver, in turns.
type Latency struct {
	Transport string
	Rate      int
	Turns     []LatencyTurn
}

// LatencyTurn is one of each.
type LatencyTurn struct {
	Without, With Quantiles
	// Answered is the client's own count of the one with the receiver, Counted the receiver's.
	Answered, Counted uint64
}

// added are the medians of what the receiver adds in a turn.
func (l *Latency) added() Quantiles {
	return Quantiles{
		P50: l.median(func(t LatencyTurn) time.Duration { return t.With.P50 - t.Without.P50 }),
		P99: l.median(func(t LatencyTurn) time.Duration { return t.With.P99 - t.Without.P99 }),
	}
}

func (l *Latency) median(of func(LatencyTurn) time.Duration) time.Duration {
	all := make([]time.Duration, len(l.Turns))
	for i, turn := range l.Turns {
		all[i] = of(turn)
	}
	return median(all)
}

// requestsOf returns a state that was measured, or an empty one.
func (r *Report) requestsOf(state string) *Network {
	for i := range r.Requests {
		if r.Requests[i].State == state {
			return &r.Requests[i]
		}
	}
	return &Network{}
}

func (r *Report) printRequests(w io.Writer) {
	if len(r.Requests) > 0 {
		fmt.Fprintf(w, "\nWhat requests add: nginx's CPU time for a request, median of %d turns; ratios of each turn: median (quartiles)\n", len(r.Requests[0].Turns))
		fmt.Fprintf(w, "  state\tCPU time\tto bare\tto empty\tto capture none\trequests/s\n")
		bare, empty, none := r.requestsOf(NetworkBare), r.requestsOf(NetworkEmpty), r.requestsOf(RequestsNone)
		for i := range r.Requests {
			s := &r.Requests[i]
			fmt.Fprintf(w, "  %s\t%d ns\t%s\t%s\t%s\t%.0f k\n", s.State, s.median().Nanoseconds(), turnRatios(s, bare), turnRatios(s, empty), turnRatios(s, none), s.rate()/1000)
		}
	}
	if len(r.Steady) > 0 {
		fmt.Fprintf(w, "\nThe Collector while nginx is asked at a constant rate\n")
		fmt.Fprintf(w, "  exported\trate\tanswered\tcounted\tCPU per request\tof it the engine's account\tlost\tincomplete\n")
	}
	for i := range r.Steady {
		s := &r.Steady[i]
		fmt.Fprintf(w, "  %s\t%d/s\t%d\t%d\t%s\t%s\t%.0f %s\t%s\n", s.Signals, s.Rate, s.Answered, s.Counted, short(s.PerRequest()),
			short(per(s.Engine, float64(s.Answered))), sum(s.Lost), reasons(s.Lost), reasons(s.Incomplete))
	}
	if len(r.Saturation) > 0 {
		fmt.Fprintf(w, "\nA client at full speed, observed itself\n")
		fmt.Fprintf(w, "  buffer\trequests/s\tanswered\tcounted\ttimed\tmedian: its own, exported\tp99: its own, exported\tlost\tincomplete\n")
	}
	for i := range r.Saturation {
		s := &r.Saturation[i]
		fmt.Fprintf(w, "  %s\t%.0f k\t%d\t%d\t%d\t%s, %s\t%s, %s\t%s\t%s\n", mib(uint64(s.Buffer)), float64(s.Answered)/s.Elapsed.Seconds()/1000, s.Answered, s.Counted, s.Timed,
			micros(s.Client.P50), micros(s.Exported.P50), micros(s.Client.P99), micros(s.Exported.P99), listed(s.Lost), listed(s.Incomplete))
	}
	if len(r.Latency) > 0 {
		fmt.Fprintf(w, "\nWhat a request takes for its client at a constant rate, without the receiver and with it, medians of %d turns\n", len(r.Latency[0].Turns))
		fmt.Fprintf(w, "  transport\trate\tmedian without\twith\tadded\tp99 without\twith\tadded\tanswered, counted\n")
	}
	for i := range r.Latency {
		l, answered, counted := &r.Latency[i], uint64(0), uint64(0)
		for _, turn := range l.Turns {
			answered += turn.Answered
			counted += turn.Counted
		}
		added := l.added()
		fmt.Fprintf(w, "  %s\t%d/s\t%s\t%s\t%s\t%s\t%s\t%s\t%d, %d\n", l.Transport, l.Rate,
			micros(l.median(func(t LatencyTurn) time.Duration { return t.Without.P50 })), micros(l.median(func(t LatencyTurn) time.Duration { return t.With.P50 })), micros(added.P50),
			micros(l.median(func(t LatencyTurn) time.Duration { return t.Without.P99 })), micros(l.median(func(t LatencyTurn) time.Duration { return t.With.P99 })), micros(added.P99),
			answered, counted)
	}
}

// micros prints a time that a client waits.
func micros(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }

// The targets of requests.
const (
	maxRequestsHeaders = 1.20
	maxMonitors        = 1.10
	maxSteadyMetrics   = 5 * time.Microsecond
	maxSteadyLogs      = 8 * time.Microsecond
	// An exported duration may differ by this part, or by this much: the time between two clocks that are read one after the other.
	maxDurationOff     = 0.05
	maxDurationOffTime = 200 * time.Microsecond
)

func (r *Report) judgeRequests(add addTarget) {
	for _, state := range []string{MonitorsOther, MonitorsAll, MonitorsReported} {
		got := turnRatios(r.requestsOf(state), r.requestsOf(NetworkEmpty))
		add("requests: nginx's CPU time for a request, "+state+", by that with empty programs", fmt.Sprintf("%.2f", maxMonitors),
			got.String(), got.median > 0, got.median <= maxMonitors)
	}
	got := turnRatios(r.requestsOf(RequestsHeaders), r.requestsOf(NetworkEmpty))
	add("requests: nginx's CPU time for a request, capture headers, by that with empty programs", fmt.Sprintf("%.2f", maxRequestsHeaders),
		got.String(), got.median > 0, got.median <= maxRequestsHeaders)
	r.judgeSteady(add, SteadyMetrics, maxSteadyMetrics)
	r.judgeSteady(add, SteadyLogs, maxSteadyLogs)
	r.judgeSaturation(add)
}

func (r *Report) judgeSteady(add addTarget, exported string, limit time.Duration) {
	s := &Steady{}
	for i := range r.Steady {
		if r.Steady[i].Signals == exported {
			s = &r.Steady[i]
		}
	}
	measured := s.Answered > 0
	name := "requests at a constant rate, " + exported + ": "
	duration(add, name+"the Collector's CPU time for each", limit, s.PerRequest(), measured)
	add(name+"lost", "0", fmt.Sprintf("%.0f %s", sum(s.Lost), reasons(s.Lost)), measured, sum(s.Lost) == 0)
	add(name+"counted against the client's own count", fmt.Sprint(s.Answered), fmt.Sprint(s.Counted), measured, s.Counted == s.Answered)
}

func (r *Report) judgeSaturation(add addTarget) {
	var worst, unknown string
	right, counted := len(r.Saturation) > 0, true
	for i := range r.Saturation {
		s := &r.Saturation[i]
		missing := s.missing()
		counted = counted && missing <= 0
		unknown += fmt.Sprintf("%d ", missing)
		right = right && s.Timed > 0 && isAlike(s.Exported.P50, s.Client.P50)
		worst += fmt.Sprintf("median %s of %s; ", micros(s.Exported.P50), micros(s.Client.P50))
		// What is lost is lost while there is most to do, so that the others are no fair sample of the slowest.
		if s.Timed == s.Answered {
			right = right && isAlike(s.Exported.P99, s.Client.P99)
			worst += fmt.Sprintf("p99 %s of %s; ", micros(s.Exported.P99), micros(s.Client.P99))
		}
	}
	measured := len(r.Saturation) > 0
	add("requests at full speed: neither counted nor in a counter of losses", "0 or less", unknown, measured, counted)
	add("requests at full speed: durations by the client's own", fmt.Sprintf("%.0f %% or %s", 100*maxDurationOff, short(maxDurationOffTime)), worst, measured, right)
}

// isAlike reports whether an exported duration is that of the client.
func isAlike(exported, client time.Duration) bool {
	return (exported - client).Abs() <= max(time.Duration(maxDurationOff*float64(client)), maxDurationOffTime)
}
