// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// whole is a report of a run in which all targets are kept.
func whole() *Report {
	rounds := func(values ...time.Duration) (rounds []WebRound) {
		for _, value := range values {
			rounds = append(rounds, WebRound{Runs: 1000, PerRun: value, RequestRate: 150000, Share: 0.95, Engine: 4 * time.Microsecond})
		}
		return rounds
	}
	return &Report{
		Binary: "abc123",
		Host:   Host{Kernel: "6.18", CPUs: 2, Others: 0.1},
		Exact:  []Exact{{Program: "c", Elapsed: 6 * time.Second, CPUTime: 12 * time.Second, Expected: 1200, Got: 1194}},
		Busy: &Busy{
			Period: 10 * time.Millisecond, Elapsed: 30 * time.Second, Expected: 6000, Got: 5990, GotStartUp: 1400,
			Lost: map[string]float64{"on_cpu/map_full": 0}, Incomplete: map[string]float64{"on_cpu/stack_cut": 7},
			Runs: 7400, RunsByKernel: 7401, Time: 37 * time.Millisecond, TimeByKernel: 37 * time.Millisecond,
			Engine:  Split{StartUp: 60 * time.Millisecond, Steady: 5990 * 8 * time.Microsecond},
			Process: Split{StartUp: 180 * time.Millisecond, Steady: 80 * time.Millisecond},
			Bare:    Split{StartUp: 40 * time.Millisecond, Steady: 8120 * time.Microsecond},
			RSSAnon: 30 << 20, RSSFile: 80 << 20, RSS: 110 << 20, BareAnon: 12 << 20,
			KernelMaps: 11, KernelMapBytes: 4 << 20, FirstSamples: []time.Duration{230 * time.Millisecond, 800 * time.Millisecond, 200 * time.Millisecond},
		},
		Web: []Web{
			{Program: Ours, Period: 10 * time.Millisecond, KernelStacks: true, Rounds: rounds(6200*time.Nanosecond, 6400*time.Nanosecond)},
			{Program: Ours, Period: 10 * time.Millisecond, Rounds: rounds(2*time.Microsecond, 9*time.Microsecond, 2400*time.Nanosecond)},
			{Program: Reference, Period: 10 * time.Millisecond, KernelStacks: true, Rounds: rounds(12400*time.Nanosecond, 6400*time.Nanosecond)},
		},
		Triggers: []Trigger{
			{Kind: "on_cpu", Before: TriggerUnknown, Started: []time.Duration{200e6, 180e6, 900e6}, FirstSample: []time.Duration{299e6, 250e6, 950e6}},
			{Kind: "network", Before: TriggerUnknown, Started: []time.Duration{900e6}},
		},
		Fired: []time.Duration{299e6, 250e6, 950e6}, FiredByRequests: []time.Duration{280e6},
		Switches: []Switch{
			{State: SwitchBare, Turns: []time.Duration{3000, 3900, 3100}},
			{State: SwitchEmpty, Turns: []time.Duration{3175, 4075, 3270}},
			{State: SwitchEmptyBoth, Turns: []time.Duration{3200, 4090, 3310}},
			{State: SwitchOutside, Turns: []time.Duration{3230, 4120, 3330}},
			{State: SwitchInside, Turns: []time.Duration{3390, 4310, 3480}},
		},
		Network: []Network{
			{State: NetworkBare, Turns: turns(6000, 9000)},
			{State: NetworkEmpty, Turns: turns(6600, 10000)},
			{State: NetworkOutside, Turns: turns(6600, 10200)},
			{State: NetworkInside, Turns: turns(7260, 10600)},
		},
		OpenConnections: []Connections{{
			Ends: 1, Opened: 100000, Accepted: 100000, Counted: 100000, Maps: 10 << 20, Sockets: 30 << 20, Anon: 5 << 20,
			Reports: []time.Duration{200 * time.Millisecond, 60 * time.Millisecond},
		}},
		ShortConnections: &Connections{Ends: 2, Opened: 100000, Accepted: 100000, Elapsed: 2 * time.Second, Bare: 120000, Counted: 199000,
			Lost: map[string]uint64{"network/sockets_full": 900}},
		Requests: []Network{
			{State: NetworkBare, Turns: turns(6000, 9000)},
			{State: NetworkEmpty, Turns: turns(6600, 10000)},
			{State: RequestsNone, Turns: turns(7000, 11000)},
			{State: RequestsHeaders, Turns: turns(7700, 12000)},
			{State: MonitorsAll, Turns: turns(7200, 10950)},
			{State: MonitorsOther, Turns: turns(7000, 10900)},
			{State: MonitorsReported, Turns: turns(7200, 10950)},
		},
		TLS: TLS{
			States:   []Network{{State: NetworkBare, Turns: turns(20000, 30000)}, {State: TLSEmpty, Turns: turns(50000, 60000)}, {State: TLSHeaders, Turns: turns(54000, 66000)}},
			Programs: []Program{{Name: "network_tls", Runs: 6, PerRun: 400}},
		},
		Steady: []Steady{
			{Signals: SteadyMetrics, Rate: 20000, Answered: 100000, Counted: 100000, CPU: 450 * time.Millisecond, Engine: 200 * time.Millisecond},
			{Signals: SteadyLogs, Rate: 20000, Answered: 100000, Counted: 100000, CPU: 800 * time.Millisecond, Incomplete: map[string]float64{"network/request_cut": 2}},
		},
		Saturation: []Saturation{{
			Buffer: 64 << 10, Answered: 300000, Counted: 299000, Timed: 299000, Elapsed: 3 * time.Second, Lost: map[string]uint64{"network/buffer_full": 2500},
			Client: Quantiles{P50: 300 * time.Microsecond, P99: 10 * time.Millisecond}, Exported: Quantiles{P50: 320 * time.Microsecond, P99: 5 * time.Millisecond},
		}, {
			Buffer: 8 << 20, Answered: 300000, Counted: 300000, Timed: 300000, Elapsed: 3 * time.Second,
			Client: Quantiles{P50: 300 * time.Microsecond, P99: 10 * time.Millisecond}, Exported: Quantiles{P50: 500 * time.Microsecond, P99: 10500 * time.Microsecond},
		}},
		Watched: []Watched{{
			Processes: 1000, Rules: 3,
			Without: Watch{InScope: 1000, CPU: 3 * time.Millisecond, Elapsed: 10 * time.Second, Memory: 2 << 20},
			With:    Watch{InScope: 1000, CPU: 23 * time.Millisecond, Elapsed: 10 * time.Second, Memory: 3 << 20},
		}},
		Latency: []Latency{{Transport: "plain", Rate: 2000, Turns: []LatencyTurn{
			{Without: Quantiles{10000, 90000}, With: Quantiles{10300, 99000}, Answered: 3000, Counted: 3000},
			{Without: Quantiles{20000, 100000}, With: Quantiles{20500, 120000}, Answered: 3000, Counted: 2999},
			{Without: Quantiles{30000, 50000}, With: Quantiles{30400, 45000}, Answered: 3000, Counted: 3000},
		}}},
	}
}

// turns of a part, by CPU time.
func turns(cpu ...time.Duration) (turns []NetworkTurn) {
	for _, took := range cpu {
		turns = append(turns, NetworkTurn{CPU: took, RequestRate: 100000})
	}
	return turns
}

func TestFigures(t *testing.T) {
	r := whole()
	require.InDelta(t, -0.5, r.Exact[0].Off(), 1e-9)
	require.Equal(t, 5*time.Microsecond, r.Busy.KernelPerSample())
	require.Equal(t, 8*time.Microsecond, r.Busy.EnginePerSample())
	require.Equal(t, 107920*time.Microsecond/7390, r.Busy.EngineWholeRunPerSample())
	require.Equal(t, 12*time.Microsecond, r.Busy.ProcessPerSample())
	require.Equal(t, 211880*time.Microsecond/7390, r.Busy.WholeRunPerSample())
	require.Equal(t, 6300*time.Nanosecond, r.Web[0].Median(), "the mean of the two in the middle")
	require.Equal(t, 2400*time.Nanosecond, r.Web[1].Median())
	require.InDelta(t, 0.75, r.toReference(r.Web[0]), 1e-9, "the mean of 6.2/12.4 and 6.4/6.4")
	require.Zero(t, r.toReference(r.Web[1]), "not measured")
	require.Zero(t, (&Busy{}).KernelPerSample(), "nothing is divided by zero")
	require.Zero(t, Web{}.Median())
	require.EqualValues(t, 390, over(r.switchOf(SwitchInside), r.switchOf(SwitchBare)), "of each turn, not of the medians")
	require.EqualValues(t, 55, over(r.switchOf(SwitchOutside), r.switchOf(SwitchEmpty)))
	require.EqualValues(t, 30, over(r.switchOf(SwitchOutside), r.switchOf(SwitchEmptyBoth)))
	require.Zero(t, over(r.switchOf("no such state"), r.switchOf(SwitchBare)), "not measured")
	got := turnRatios(r.networkOf(NetworkInside), r.networkOf(NetworkEmpty))
	require.InDelta(t, 1.07, got.lower, 1e-9, "a quarter of the way from 1.06 to 1.10")
	require.InDelta(t, 1.08, got.median, 1e-9)
	require.InDelta(t, 1.09, got.upper, 1e-9)
	require.Zero(t, turnRatios(r.networkOf(NetworkEmptySame), r.networkOf(NetworkBare)), "not measured")
	require.EqualValues(t, 45<<20, r.OpenConnections[0].Memory())
	require.Equal(t, 4500*time.Nanosecond, r.Steady[0].PerRequest())
	require.EqualValues(t, -1500, r.Saturation[0].missing(), "of 1000 that were not counted 2500 records are counted as lost")
	require.Equal(t, Quantiles{400, 9000}, r.Latency[0].added(), "medians of each turn's difference")
	require.Zero(t, (&Latency{}).added(), "not measured")
	require.InDelta(t, 0.2, r.Watched[0].Percent(), 1e-9)
	require.EqualValues(t, 1<<20, r.Watched[0].Memory())
}

func TestTargetsKept(t *testing.T) {
	r := whole()
	r.Judge()
	for _, target := range r.Targets {
		require.Equal(t, "PASS", target.Verdict(), target.Name)
	}
	require.True(t, r.Passed())
	require.Len(t, r.Targets, 38)
}

func TestTargetsMissed(t *testing.T) {
	const shortTarget = "network: connections that are closed at once: connects and accepts against the programs' own count"
	const steadyTarget, durationTarget = "requests at a constant rate, ", "requests at full speed: durations by the client's own"
	for name, c := range map[string]struct {
		change func(*Report)
		target string
	}{
		"lost":         {func(r *Report) { r.Busy.Lost["on_cpu/map_full"] = 1 }, "lost samples"},
		"too many":     {func(r *Report) { r.Exact[0].Got = 1237 }, "samples of c against its CPU time"},
		"too few":      {func(r *Report) { r.Exact[0].Got = 1163 }, "samples of c against its CPU time"},
		"kernel":       {func(r *Report) { r.Web[0].Rounds = r.Web[2].Rounds }, "kernel time per sample, kernel+user, nginx and wrk, every 10ms"},
		"reference":    {func(r *Report) { r.Web[2].Rounds = []WebRound{{PerRun: 6100}, {PerRun: 6300}} }, "the same to the reference's, kernel+user, every 10ms"},
		"user":         {func(r *Report) { r.Web[1].Rounds = r.Web[2].Rounds }, "kernel time per sample, user only, nginx and wrk, every 10ms"},
		"engine":       {func(r *Report) { r.Busy.Engine = Split{Steady: 2 * r.Busy.Engine.Steady} }, "engine CPU per sample (its own account, steady)"},
		"start-up":     {func(r *Report) { r.Busy.Engine.StartUp *= 2 }, "engine CPU per sample (its own account, with the start-up)"},
		"process":      {func(r *Report) { r.Busy.Process.Steady *= 2 }, "engine CPU per sample (Collector less bare one, steady)"},
		"memory":       {func(r *Report) { r.Busy.RSSAnon = 51 << 20 }, "RssAnon, highest"},
		"maps":         {func(r *Report) { r.Busy.KernelMapBytes = 17 << 20 }, "kernel maps"},
		"in scope":     {func(r *Report) { r.Network[3].Turns = turns(7300, 11100) }, "network: nginx's CPU time for a request, in scope, by that with empty programs"},
		"out of scope": {func(r *Report) { r.Network[2].Turns = turns(6900, 10400) }, "network: nginx's CPU time for a request, out of scope, by that with empty programs"},
		"uncounted":    {func(r *Report) { r.OpenConnections[0].Counted-- }, "network: 100000 open connections: counted"},
		"sockets":      {func(r *Report) { r.OpenConnections[0].Sockets *= 2 }, "network: 100000 open connections: memory, kernel and user"},
		"report, both ends": {func(r *Report) {
			r.OpenConnections = append(r.OpenConnections, Connections{Ends: 2, Reports: []time.Duration{251 * time.Millisecond}})
		}, "network: 100000 open connections: longest report, of one end or both"},
		"report":            {func(r *Report) { r.OpenConnections[0].Reports[1] *= 5 }, "network: 100000 open connections: longest report, of one end or both"},
		"short ones":        {func(r *Report) { r.ShortConnections.Counted -= 101 }, shortTarget},
		"too many of these": {func(r *Report) { r.ShortConnections.Counted += 2101 }, shortTarget},
		"requests":          {func(r *Report) { r.Requests[3].Turns = turns(8000, 12100) }, "requests: nginx's CPU time for a request, capture headers, by that with empty programs"},
		"tls":               {func(r *Report) { r.TLS.States[2].Turns = turns(56000, 67000) }, "tls: nginx's CPU time for a request through OpenSSL, capture headers, by that with empty programs at the same functions"},
		"metrics":           {func(r *Report) { r.Steady[0].CPU += 51 * time.Millisecond }, steadyTarget + "metrics and slow logs: the Collector's CPU time for each"},
		"a log each":        {func(r *Report) { r.Steady[1].CPU += 101 * time.Microsecond }, steadyTarget + "metrics and a log for each: the Collector's CPU time for each"},
		"lost requests":     {func(r *Report) { r.Steady[0].Lost = map[string]float64{"network/buffer_full": 1} }, steadyTarget + "metrics and slow logs: lost"},
		"counted twice":     {func(r *Report) { r.Steady[1].Counted++ }, steadyTarget + "metrics and a log for each: counted against the client's own count"},
		"lost silently":     {func(r *Report) { r.Saturation[0].Counted -= 1501 }, "requests at full speed: neither counted nor in a counter of losses"},
		"wrong median":      {func(r *Report) { r.Saturation[0].Exported.P50 += 181 * time.Microsecond }, durationTarget},
		"wrong p99":         {func(r *Report) { r.Saturation[1].Exported.P99++ }, durationTarget},
		"no durations":      {func(r *Report) { r.Saturation[0].Timed = 0 }, durationTarget},
		"first sample":      {func(r *Report) { r.Busy.FirstSamples[0] = time.Second }, "process start to first sample, median"},
		"fired late":        {func(r *Report) { r.FiredByRequests[0] = time.Second }, firedByRequestsTarget},
	} {
		t.Run(name, func(t *testing.T) {
			r := whole()
			c.change(r)
			r.Judge()
			require.False(t, r.Passed())
			for _, target := range r.Targets {
				require.Equal(t, target.Name == c.target, target.Verdict() == "FAIL", target.Name)
			}
		})
	}
}

func TestNothingMeasuredIsNotPassed(t *testing.T) {
	r := &Report{}
	r.Judge()
	for _, target := range r.Targets {
		require.Equal(t, "not measured", target.Verdict(), target.Name)
	}
	require.False(t, r.Passed())
	require.NoError(t, r.Print(&strings.Builder{}))
}

func TestPrint(t *testing.T) {
	r := whole()
	r.Notes = []string{"the load has no java program"}
	r.Judge()
	var out strings.Builder
	require.NoError(t, r.Print(&out))
	lines := strings.Split(out.String(), "\n")
	for _, want := range []string{
		"Collector: SHA-256 abc123",
		"Note: the load has no java program",
		"c 6s 12s 1200.0 1194 -0.50 %",
		"samples got 5990 (-0.17 %)",
		"incomplete samples, whole run 7 (on_cpu/stack_cut 7)",
		"kernel time per sample 5.00 µs (7400 runs)",
		"highest RssAnon, RssFile, RSS 30.0 MiB, 80.0 MiB, 110.0 MiB (bare Collector: RssAnon 12.0 MiB)",
		"ebpf receiver 10ms kernel+user 6.30 µs 0.75 6.20 µs 6.40 µs 1000 1000 95 % 95 % 150 k 150 k 4.00 µs 0",
		"network, nginx in scope 8930 ns 1.194 (1.186–1.202) 1.080 (1.070–1.090) 0.000 (0.000–0.000) 100 k",
		"network, nginx in scope, capture headers: metrics and slow logs 9850 ns 1.308 (1.296–1.321) 1.183 (1.175–1.192) 1.095 (1.093–1.098) 100 k",
		"metrics and a log for each 20000/s 100000 100000 8.00 µs 0 0 (network/request_cut 2)",
		"0.1 MiB 100 k 300000 299000 299000 300.0 µs, 320.0 µs 10000.0 µs, 5000.0 µs network/buffer_full 2500",
		"plain 2000/s 20.0 µs 20.5 µs 0.4 µs 90.0 µs 99.0 µs 9.0 µs 9000, 8999",
		"memory: maps, for sockets, RssAnon 10.0 MiB, 30.0 MiB, 5.0 MiB",
		"per second, and without observation 50000, 60000",
		"lost, by reason network/sockets_full 900",
		"process start to first sample 230.0 ms (of 230.0 ms, 800.0 ms, 200.0 ms)",
		"PASS process start to first sample, median 230.0 ms limit 700.0 ms",
	} {
		found := false
		for _, line := range lines {
			found = found || strings.Join(strings.Fields(line), " ") == want
		}
		require.True(t, found, "no line %q in\n%s", want, out.String())
	}
}
