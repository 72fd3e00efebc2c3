// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"slices"
	"time"
)

// Report is one run of the benchmark. Durations are nanoseconds in JSON. What was not measured is nil or empty.
type Report struct {
	Host Host
	// Binary is the SHA-256 of the Collector that was measured, in hexadecimal: figures are of one build.
	Binary   string
	Exact    []Exact   `json:",omitempty"`
	Busy     *Busy     `json:",omitempty"`
	Web      []Web     `json:",omitempty"`
	Switches []Switch  `json:",omitempty"`
	Network  []Network `json:",omitempty"`
	// OpenConnections are open at the same time, ShortConnections are closed at once.
	OpenConnections  []Connections `json:",omitempty"`
	ShortConnections *Connections  `json:",omitempty"`
	// Requests is what observing requests costs nginx, Steady what it costs the Collector, Saturation what is exported at full speed, and
	// Latency how much longer clients wait.
	Requests   []Network    `json:",omitempty"`
	Steady     []Steady     `json:",omitempty"`
	Saturation []Saturation `json:",omitempty"`
	Latency    []Latency    `json:",omitempty"`
	// TLS is what requests through OpenSSL cost nginx.
	TLS TLS
	// Watched is what policies cost.
	Watched []Watched `json:",omitempty"`
	// Triggers is how fast tasks begin.
	Triggers []Trigger `json:",omitempty"`
	// Fired is how long it takes from the end of the second that fulfils a policy's rule to the
	// first sample of the profile that it starts.
	Fired []time.Duration `json:",omitempty"`
	// FiredByRequests are the times for a rule about requests, all of which are known a little
	// later.
	FiredByRequests []time.Duration `json:",omitempty"`
	// Notes say what was left out or disturbed, and why.
	Notes   []string `json:",omitempty"`
	Targets []Target
}

// Host is the machine.
type Host struct {
	Kernel string
	CPUs   int
	// Others is the CPU time, in CPUs, that the rest of the host used just before the benchmark.
	Others float64
}

// Exact compares the samples in the exported profiles of one program, from its start to its end, with the CPU time that
// the kernel has charged to it.
type Exact struct {
	Program  string
	Elapsed  time.Duration
	CPUTime  time.Duration
	Expected float64 // CPU time by period
	Got      int64
}

// Off is how far the samples are from the CPU time, in percent.
func (e Exact) Off() float64 { return 100 * (float64(e.Got)/e.Expected - 1) }

// Split is an amount in the start-up (process start to after the first report) and in the steady state after it.
type Split struct{ StartUp, Steady time.Duration }

// Total is both together.
func (s Split) Total() time.Duration { return s.StartUp + s.Steady }

// Busy is the Collector under the fixed load.
type Busy struct {
	Period  time.Duration
	Elapsed time.Duration // of the steady state

	// Of the steady state: what the host's busy time gives, and what the receiver has counted.
	Expected, Got float64
	GotStartUp    float64
	// Lost and incomplete samples of the whole run, by probe and reason.
	Lost, Incomplete map[string]float64
	Level            float64 // limit level at the end; 0: sampled as configured

	// The sampling program, of the whole run: by the receiver's metrics and by the kernel's record of the program.
	Runs, RunsByKernel uint64
	Time, TimeByKernel time.Duration

	Engine  Split // the receiver's own account of its user side
	Process Split // the whole Collector
	Bare    Split // a Collector without the receiver over the same time

	RSSAnon, RSSFile, RSS uint64 // highest, bytes
	BareAnon              uint64
	KernelMaps            int
	KernelMapBytes        uint64
	// FirstSamples are the times from process start to the first sample, of several starts.
	FirstSamples []time.Duration
	// FirstSamplesByDefault are those of a receiver that nothing was said to, which observes network, too.
	FirstSamplesByDefault []time.Duration
}

// FirstSample is the median of the starts.
func (b *Busy) FirstSample() time.Duration { return median(b.FirstSamples) }

// LostSum is the number of all lost samples.
func (b *Busy) LostSum() float64 { return sum(b.Lost) }

// KernelPerSample is the mean run time of the sampling program.
func (b *Busy) KernelPerSample() time.Duration { return per(b.Time, float64(b.Runs)) }

// EnginePerSample is the engine's own account in the steady state.
func (b *Busy) EnginePerSample() time.Duration { return per(b.Engine.Steady, b.Got) }

// EngineWholeRunPerSample is the same with the start-up.
func (b *Busy) EngineWholeRunPerSample() time.Duration {
	return per(b.Engine.Total(), b.Got+b.GotStartUp)
}

// ProcessPerSample is what the whole Collector uses beyond the bare one, in the steady state.
func (b *Busy) ProcessPerSample() time.Duration { return per(b.Process.Steady-b.Bare.Steady, b.Got) }

// WholeRunPerSample is the same with the start-up.
func (b *Busy) WholeRunPerSample() time.Duration {
	return per(b.Process.Total()-b.Bare.Total(), b.Got+b.GotStartUp)
}

// Web is one state of the load of nginx and wrk, measured once or more.
type Web struct {
	Program      string // ours or the reference
	Period       time.Duration
	KernelStacks bool
	Rounds       []WebRound
}

// WebRound is one measurement of a state.
type WebRound struct {
	Runs        uint64
	PerRun      time.Duration // run time of the sampling program
	RequestRate float64       // per second, by wrk
	Share       float64       // of the host's CPU time that was nginx's and wrk's
	Engine      time.Duration // the engine's account for each sample; 0 for the reference
	Lost        float64
}

// Median is the median of the rounds' run times.
func (w Web) Median() time.Duration {
	var all []time.Duration
	for _, round := range w.Rounds {
		all = append(all, round.PerRun)
	}
	return median(all)
}

// EngineMedian is the median of the engine's account for each sample.
func (w Web) EngineMedian() time.Duration {
	var all []time.Duration
	for _, round := range w.Rounds {
		all = append(all, round.Engine)
	}
	return median(all)
}

// toReference is the median of a state's rounds over those of the reference in the same state, each over the one of its
// own turn: what slows the host down for a while slows both. 0: there is no reference.
func (r *Report) toReference(s Web) float64 {
	for _, other := range r.Web {
		if other.Program != Reference || other.Period != s.Period || other.KernelStacks != s.KernelStacks {
			continue
		}
		var ratios []float64
		for i, round := range s.Rounds {
			if i < len(other.Rounds) && other.Rounds[i].PerRun > 0 {
				ratios = append(ratios, float64(round.PerRun)/float64(other.Rounds[i].PerRun))
			}
		}
		return median(ratios)
	}
	return 0
}

func median[T ~int64 | ~float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func per(d time.Duration, n float64) time.Duration {
	if n <= 0 {
		return 0
	}
	return time.Duration(float64(d) / n)
}

func sum(counts map[string]float64) float64 {
	var total float64
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		total += counts[key]
	}
	return total
}
