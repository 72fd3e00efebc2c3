// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
)

// host is what a Watch reads in tests.
type host struct {
	t      *testing.T
	watch  *Watch
	second int64
	at     time.Duration
	load   float64
	// pressure is that of disks.
	pressure float64
	used     map[model.ProcessID]Usage
}

const cpus = 2

func newHost(t *testing.T, policies ...Policy) *host {
	for i := range policies {
		if policies[i].Name == "" {
			policies[i].Name = "p"
		}
		if policies[i].Silence == 0 {
			policies[i].Silence = 20 * time.Minute
		}
	}
	return &host{t: t, watch: New(policies), second: 1_800_000_000, at: 1000 * time.Second, used: map[model.ProcessID]Usage{}}
}

// process is one that began long before anybody watched.
func process(pid uint32) *model.Process {
	return &model.Process{ID: model.ProcessID{PID: pid, StartTicks: 1}}
}

// next lets a second go by in which a process used cpu, and returns what triggered.
func (h *host) next(id model.ProcessID, cpu time.Duration, threads int) []Trigger {
	u := h.used[id]
	h.used[id] = Usage{CPU: u.CPU + cpu, Threads: threads}
	return h.tick(time.Second)
}

func (h *host) tick(took time.Duration) []Trigger {
	h.at += took
	h.second += int64(took / time.Second)
	fired := h.watch.Tick(Reading{
		Second: h.second, At: h.at, CPUs: cpus, Host: map[*monitor.Descriptor]float64{monitor.SystemLoad: h.load, monitor.SystemIOPressure: h.pressure},
		Usage: func(id model.ProcessID) (Usage, bool) { return h.used[id], true },
	})
	return append(fired, h.watch.Late(h.at)...)
}

func cpuRule(threshold float64, period, count int) Policy {
	return Policy{When: []Rule{{Monitor: monitor.ProcessCPU, Threshold: threshold, Period: period, Count: count}}}
}

// TestBusyProcess holds that CPU time counts by the second, that a trigger has its causes, and that it comes once.
func TestBusyProcess(t *testing.T) {
	h := newHost(t, cpuRule(40, 5, 3))
	p := process(7)
	h.watch.Add(p, []int{0})
	h.used[p.ID] = Usage{CPU: 100 * time.Hour} // in all the time before
	for range 10 {
		require.Empty(t, h.next(p.ID, 100*time.Millisecond, 1))
	}
	require.Empty(t, h.next(p.ID, 800*time.Millisecond, 1), "40 % of two CPUs: the first of three")
	require.Empty(t, h.next(p.ID, time.Second, 1))
	fired := h.next(p.ID, 900*time.Millisecond, 1)
	require.Len(t, fired, 1)
	require.Equal(t, "p", fired[0].Policy.Name)
	require.Same(t, p, fired[0].Process)
	require.Equal(t, []model.Cause{{Monitor: "process_cpu", Threshold: 40, Value: 45}}, fired[0].Causes)
	require.Empty(t, h.next(p.ID, time.Second, 1), "the outcome is not known yet")
	h.watch.Started("p", p.ID, h.at)
	for range 1199 {
		require.Empty(t, h.next(p.ID, time.Second, 1), "silence")
	}
	require.Len(t, h.next(p.ID, time.Second, 1), 1)
}

// TestPressure holds that what the whole host waits for triggers for each process that is watched, and has one value for the host.
func TestPressure(t *testing.T) {
	h := newHost(t, Policy{When: []Rule{{Monitor: monitor.SystemIOPressure, Threshold: 30, Period: 5, Count: 2}}},
		Policy{Name: "other", When: []Rule{{Monitor: monitor.SystemMemoryPressure, Threshold: 0, Period: 5, Count: 1}}})
	for pid := range uint32(2) {
		h.watch.Add(process(pid), []int{0, 1})
	}
	h.pressure = 29.9
	require.Empty(t, h.tick(time.Second))
	h.pressure = 31
	require.Empty(t, h.tick(time.Second))
	fired := h.tick(time.Second)
	require.Len(t, fired, 2, "one for each process, and none where there are no values")
	require.Equal(t, []model.Cause{{Monitor: "system_io_pressure", Threshold: 30, Value: 31}}, fired[0].Causes)
	var got []Value
	h.watch.Values(func(v Value) { got = append(got, v) })
	require.Equal(t, []Value{{Policy: "p", Monitor: monitor.SystemIOPressure, Value: 31}}, got)
}

// TestHostTriggersTheBusiestFirst holds that what is the host's triggers for those first that use the CPUs most, and for kernel threads
// only where the configuration names them; what these use themselves triggers always.
func TestHostTriggersTheBusiestFirst(t *testing.T) {
	load, busy := Rule{Monitor: monitor.SystemLoad, Threshold: 4, Period: 5, Count: 2}, Rule{Monitor: monitor.ProcessCPU, Threshold: 90, Period: 5, Count: 1}
	named := Policy{Name: "named", When: []Rule{load}, KernelThreads: true}
	h := newHost(t, Policy{When: []Rule{load, busy}}, named)
	h.load = 5
	const idle, guilty, less, thread, swaps = 1, 2, 3, 4, 5
	use := map[uint32]time.Duration{guilty: 1500 * time.Millisecond, less: 500 * time.Millisecond, swaps: 2 * time.Second}
	for pid := range uint32(swaps) {
		p := process(pid + 1)
		p.KernelThread = pid+1 == thread || pid+1 == swaps
		h.watch.Add(p, map[bool][]int{true: {0}, false: {0, 1}}[pid+1 == swaps])
	}
	var fired []string
	for range 2 {
		for pid, cpu := range use {
			h.used[process(pid).ID] = Usage{CPU: h.used[process(pid).ID].CPU + cpu, Threads: 1}
		}
		for _, f := range h.tick(time.Second) {
			fired = append(fired, fmt.Sprint(f.Policy.Name, f.Process.ID.PID))
		}
	}
	require.Equal(t, []string{"p5", "p2", "named2", "p3", "named3", "p1", "named1", "named4"}, fired)
	require.True(t, h.watch.Holds("named", process(thread).ID))
	require.False(t, h.watch.Holds("p", process(thread).ID))
}

// TestNeverTriggers are the cases in which Rover triggers, or in which no policy should.
func TestNeverTriggers(t *testing.T) {
	busy := func(seconds int) []time.Duration {
		list := make([]time.Duration, seconds)
		for i := range list {
			list[i] = 2 * time.Second
		}
		return list
	}
	for name, used := range map[string][]time.Duration{
		"a spike shorter than count":     append(append(busy(1), 0, 0, 0, 0), busy(1)...),
		"the shorter period counts":      append(append(busy(2), 0, 0, 0, 0), busy(2)...),
		"busy before anybody has looked": {0, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, cpuRule(80, 5, 3), Policy{Name: "long", When: []Rule{{Monitor: monitor.ProcessCPU, Threshold: 80, Period: 60, Count: 50}}})
			p := process(7)
			h.used[p.ID] = Usage{CPU: 1000 * time.Hour}
			h.watch.Add(p, []int{0, 1})
			require.Empty(t, h.tick(time.Second))
			for _, cpu := range used {
				require.Empty(t, h.next(p.ID, cpu, 1))
			}
		})
	}
}

// TestBusyAnHourAgo holds that what was an hour ago does not count, nor slow down what is now.
func TestBusyAnHourAgo(t *testing.T) {
	h := newHost(t, cpuRule(80, 10, 5))
	p := process(7)
	h.watch.Add(p, []int{0})
	h.tick(time.Second)
	for range 4 { // one less than it takes
		require.Empty(t, h.next(p.ID, 2*time.Second, 1))
	}
	require.Empty(t, h.tick(time.Hour))
	require.Empty(t, h.next(p.ID, 2*time.Second, 1))
	for range 3 {
		require.Empty(t, h.next(p.ID, 2*time.Second, 1))
	}
	require.Len(t, h.next(p.ID, 2*time.Second, 1), 1, "as soon as if it had never been busy before")
}

// TestTrafficThatStopped holds that windows age without requests.
func TestTrafficThatStopped(t *testing.T) {
	h := newHost(t, Policy{When: []Rule{{Monitor: monitor.HTTPErrorRate, Threshold: 50, Period: 10, Count: 5}}})
	p := process(7)
	h.watch.Add(p, []int{0})
	for range 4 {
		h.watch.Request(p.ID, Request{Second: h.second + 1, Path: []byte("/"), Status: 500})
		require.Empty(t, h.tick(time.Second))
	}
	for range 10 {
		require.Empty(t, h.tick(time.Second))
	}
	h.watch.Request(p.ID, Request{Second: h.second + 1, Path: []byte("/"), Status: 500})
	require.Empty(t, h.tick(time.Second), "the first four have left")
	require.Equal(t, 1, h.watch.order[0].subjects[0].windows[0][0].reached(h.second))
}

// TestThreadsAndLoad are the monitors that are not differences.
func TestThreadsAndLoad(t *testing.T) {
	h := newHost(t,
		Policy{Name: "threads", When: []Rule{{Monitor: monitor.ProcessThreadCount, Threshold: 100, Period: 3, Count: 2}}},
		Policy{Name: "load", When: []Rule{{Monitor: monitor.SystemLoad, Threshold: 4, Period: 3, Count: 2}}})
	p, q := process(7), process(8)
	h.watch.Add(p, []int{0, 1})
	h.watch.Add(q, []int{1})
	require.Empty(t, h.next(p.ID, 0, 100))
	fired := h.next(p.ID, 0, 120)
	require.Len(t, fired, 1)
	require.Equal(t, []model.Cause{{Monitor: "process_thread_count", Threshold: 100, Value: 120}}, fired[0].Causes)
	h.watch.Started("threads", p.ID, h.at)

	h.load = 4.5
	require.Empty(t, h.next(p.ID, 0, 1))
	fired = h.next(p.ID, 0, 1)
	require.Len(t, fired, 2, "one value of the host, each process that is watched")
	require.Equal(t, []model.Cause{{Monitor: "system_load", Threshold: 4, Value: 4.5}}, fired[0].Causes)
}

// TestRequests is what narrows monitors of requests.
func TestRequests(t *testing.T) {
	h := newHost(t,
		Policy{Name: "list", When: []Rule{{Monitor: monitor.HTTPAvgResponseTime, Threshold: 300, Period: 5, Count: 2, Paths: []string{"/pay", "/cart"}}}},
		Policy{Name: "pattern", When: []Rule{{Monitor: monitor.HTTPErrorRate, Threshold: 50, Period: 5, Count: 2, Pattern: regexp.MustCompile("^/pay")}}})
	p := process(7)
	h.watch.Add(p, []int{0, 1})
	ask := func(path string, status int, took time.Duration) {
		h.watch.Request(p.ID, Request{Second: h.second + 1, Path: []byte(path), Status: status, Took: took, Timed: true})
	}
	for range 5 { // slow and failing elsewhere; half of each path's seconds are slow
		ask("/other", 500, time.Minute)
		ask("/pay", 200, 100*time.Millisecond)
		require.Empty(t, h.tick(time.Second))
	}
	ask("/cart", 499, 299*time.Millisecond)
	require.Empty(t, h.tick(time.Second))
	ask("/cart", 200, 500*time.Millisecond)
	ask("/cart", 200, 100*time.Millisecond) // the mean is 300
	require.Empty(t, h.tick(time.Second))
	ask("/cart", 200, 400*time.Millisecond)
	fired := h.tick(time.Second)
	require.Len(t, fired, 1)
	require.Equal(t, []model.Cause{{Monitor: "http_avg_response_time", Threshold: 300, Value: 400, Path: "/cart"}}, fired[0].Causes)
	h.watch.Started("list", p.ID, h.at)

	ask("/pay/now", 599, 0)
	ask("/pay/now", 600, 0)
	require.Empty(t, h.tick(time.Second))
	ask("/pay", 500, 0)
	require.Equal(t, "pattern", h.tick(time.Second)[0].Policy.Name)
}

// TestRequestsWithoutAResponse holds that they are errors, and that they take as long as they do.
func TestRequestsWithoutAResponse(t *testing.T) {
	h := newHost(t,
		Policy{Name: "errors", When: []Rule{{Monitor: monitor.HTTPErrorRate, Threshold: 75, Period: 5, Count: 1}}},
		Policy{Name: "slow", When: []Rule{{Monitor: monitor.HTTPAvgResponseTime, Threshold: 300, Period: 5, Count: 1}}})
	p := process(7)
	h.watch.Add(p, []int{0, 1})
	ask := func(r Request) {
		r.Second, r.Path, r.Timed = h.second+1, []byte("/pay"), true
		h.watch.Request(p.ID, r)
	}
	ask(Request{Status: 200})
	for range 3 {
		ask(Request{Unanswered: true, Took: 400 * time.Millisecond})
	}
	fired := h.tick(time.Second)
	require.Len(t, fired, 2)
	require.Equal(t, []model.Cause{{Monitor: "http_error_rate", Threshold: 75, Value: 75}}, fired[0].Causes)
	require.Equal(t, []model.Cause{{Monitor: "http_avg_response_time", Threshold: 300, Value: 300}}, fired[1].Causes)
	ask(Request{}) // of which it is not known how it ended
	h.watch.Started("errors", p.ID, h.at)
	h.watch.Started("slow", p.ID, h.at)
}

// TestLateRequest holds that what arrives after the end of its second still triggers, in that second.
func TestLateRequest(t *testing.T) {
	h := newHost(t, Policy{When: []Rule{{Monitor: monitor.HTTPErrorRate, Threshold: 100, Period: 2, Count: 1}}})
	p := process(7)
	h.watch.Add(p, []int{0})
	require.Empty(t, h.tick(time.Second))
	require.Empty(t, h.watch.Late(h.at))
	h.watch.Request(p.ID, Request{Second: h.second + 1, Status: 500})
	require.Empty(t, h.watch.Late(h.at), "that second has not ended")
	h.watch.Request(p.ID, Request{Second: h.second, Status: 500})
	require.Len(t, h.watch.Late(h.at), 1)
	require.Empty(t, h.watch.Late(h.at))
	h.watch.Request(p.ID, Request{Second: h.second - 100, Status: 500})
	h.watch.Request(p.ID, Request{Second: h.second + 3600, Status: 500})
	require.Equal(t, uint64(2), h.watch.Stats().Late)
}

// TestRequestsWhileNobodyLooks holds that requests count in their seconds though the look at the end of these comes late.
func TestRequestsWhileNobodyLooks(t *testing.T) {
	for name, tc := range map[string]struct {
		stall int64
		late  uint64
		fires bool
	}{"some seconds": {10, 0, true}, "as long as may be": {LateBy, 0, true}, "long": {LateBy + 5, 5, false}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, Policy{When: []Rule{{Monitor: monitor.HTTPErrorRate, Threshold: 100, Period: 60, Count: 10 + max(0, int(tc.stall)-10)}}})
			p := process(7)
			h.watch.Add(p, []int{0})
			require.Empty(t, h.tick(time.Second))
			for s := range tc.stall {
				h.watch.Request(p.ID, Request{Second: h.second + 1 + s, Status: 500})
			}
			require.Equal(t, tc.fires, len(h.tick(time.Duration(tc.stall)*time.Second)) == 1)
			require.Equal(t, tc.late, h.watch.Stats().Late)
		})
	}
}

// TestMissedTicks holds that seconds at whose end the policies were not evaluated have no value, and that the next one's is right.
func TestMissedTicks(t *testing.T) {
	h := newHost(t, cpuRule(80, 10, 2))
	p := process(7)
	h.watch.Add(p, []int{0})
	h.tick(time.Second)
	h.used[p.ID] = Usage{CPU: 6 * time.Second} // in three seconds of two CPUs
	require.Empty(t, h.tick(3*time.Second), "one value: that of the last second")
	require.Equal(t, uint64(2), h.watch.Stats().Missed)
	require.Len(t, h.next(p.ID, 2*time.Second, 1), 1)

	require.Nil(t, h.watch.Tick(Reading{Second: h.second, At: h.at}), "a second is evaluated once")
}

// TestLateTick holds that a reading that came late counts for the time that it is of.
func TestLateTick(t *testing.T) {
	h := newHost(t, cpuRule(50, 10, 3))
	p := process(7)
	h.watch.Add(p, []int{0})
	usage := Usage{}
	tick := func(second int64, at time.Duration, cpu time.Duration) []Trigger {
		usage.CPU += cpu
		return h.watch.Tick(Reading{Second: second, At: at, CPUs: 1, Usage: func(model.ProcessID) (Usage, bool) { return usage, true }})
	}
	tick(100, 10*time.Second, 0)
	require.Empty(t, tick(101, 11800*time.Millisecond, 900*time.Millisecond)) // 50 %
	require.Empty(t, tick(102, 12*time.Second, 200*time.Millisecond), "too short for a value")
	require.Empty(t, tick(103, 13*time.Second, 800*time.Millisecond), "1 s in 1.2 s")
	require.Len(t, tick(104, 14*time.Second, 500*time.Millisecond), 1)
}

// TestThreadEndsWhileRead holds that CPU time which is missing from one reading is not counted as used after it.
func TestThreadEndsWhileRead(t *testing.T) {
	h := newHost(t, cpuRule(20, 10, 1))
	p := process(7)
	h.watch.Add(p, []int{0})
	h.next(p.ID, 1000*time.Hour, 2)
	require.Empty(t, h.next(p.ID, -900*time.Hour, 1))
	require.Empty(t, h.next(p.ID, 900*time.Hour+500*time.Millisecond, 1), "half a second in two seconds of two CPUs")
	require.Len(t, h.next(p.ID, 400*time.Millisecond, 1), 1)
}

// TestNewProcess holds that a process that began a moment ago is watched from its first second.
func TestNewProcess(t *testing.T) {
	h := newHost(t, cpuRule(90, 3, 1))
	h.tick(time.Second)
	began := h.at + 100*time.Millisecond
	p := &model.Process{ID: model.ProcessID{PID: 9, StartTicks: uint64(began / (10 * time.Millisecond))}}
	h.watch.Add(p, []int{0})
	require.Len(t, h.next(p.ID, 1900*time.Millisecond, 1), 1)

	h.tick(time.Second)
	began = h.at - 300*time.Millisecond // and it was not known before
	q := &model.Process{ID: model.ProcessID{PID: 10, StartTicks: uint64(began / (10 * time.Millisecond))}}
	h.watch.Add(q, []int{0})
	require.Len(t, h.next(q.ID, 2400*time.Millisecond, 1), 1, "2.4 s in 1.3 s of two CPUs")
	h.watch.Add(process(11), []int{0})
	require.Empty(t, h.next(process(11).ID, 1000*time.Hour, 1), "which began long ago: nothing is known of its last second")
}

// TestUnknownPart holds that a second of which a part of the requests has arrived does not trigger before the rest has.
func TestUnknownPart(t *testing.T) {
	h := newHost(t, Policy{When: []Rule{{Monitor: monitor.HTTPErrorRate, Threshold: 80, Period: 5, Count: 1}}})
	p := process(7)
	h.watch.Add(p, []int{0})
	h.tick(time.Second)
	second := h.second + 1
	h.watch.Request(p.ID, Request{Second: second, Status: 500})
	require.Empty(t, h.watch.Tick(Reading{Second: second, At: h.at + time.Second, Usage: func(model.ProcessID) (Usage, bool) { return Usage{}, true }}))
	for range 9 {
		h.watch.Request(p.ID, Request{Second: second, Status: 200})
	}
	require.Empty(t, h.watch.Late(h.at), "one of ten")

	h.watch.Request(p.ID, Request{Second: second + 1, Status: 500})
	require.Empty(t, h.watch.Tick(Reading{Second: second + 1, At: h.at + 2*time.Second, Usage: func(model.ProcessID) (Usage, bool) { return Usage{}, true }}))
	require.Len(t, h.watch.Late(h.at), 1, "all of that second had arrived before it ended")
}

// TestFailedStart holds that a task that could not start does not close the gate.
func TestFailedStart(t *testing.T) {
	h := newHost(t, cpuRule(90, 3, 1))
	p := process(7)
	h.watch.Add(p, []int{0})
	h.tick(time.Second)
	require.Len(t, h.next(p.ID, 2*time.Second, 1), 1)
	h.watch.Failed("p", p.ID, h.at, false)
	require.Len(t, h.next(p.ID, 2*time.Second, 1), 1, "at once")
	h.watch.Failed("p", p.ID, h.at, false)
	fired := 0
	for range 600 {
		for range h.next(p.ID, 2*time.Second, 1) {
			fired++
			h.watch.Failed("p", p.ID, h.at, false)
		}
	}
	require.InDelta(t, 14, fired, 2, "and then not each second")
	h.watch.Started("p", model.ProcessID{PID: 4711}, h.at) // who is gone
}

// TestReplace holds that windows of what did not change go on, and that new processes are met.
func TestReplace(t *testing.T) {
	slow := Rule{Monitor: monitor.HTTPAvgResponseTime, Threshold: 100, Period: 10, Count: 3, Pattern: regexp.MustCompile("^/pay")}
	busy := Rule{Monitor: monitor.ProcessCPU, Threshold: 50, Period: 10, Count: 3}
	h := newHost(t, Policy{When: []Rule{busy, slow}})
	p, q := process(7), process(8)
	h.watch.Add(p, []int{0})
	h.watch.Add(q, []int{0})
	h.tick(time.Second)
	for range 2 {
		h.watch.Request(p.ID, Request{Second: h.second + 1, Path: []byte("/pay"), Took: time.Second, Timed: true})
		require.Empty(t, h.next(p.ID, 2*time.Second, 1))
	}
	bytes := h.watch.Bytes()
	changed := busy
	changed.Count = 2
	h.watch.Replace([]Policy{{Name: "other", When: []Rule{busy}}, {Name: "p", Silence: time.Minute, When: []Rule{
		{Monitor: monitor.SystemLoad, Threshold: 1000, Period: 1, Count: 1}, slow, changed,
	}}}, func(m *model.Process) []int {
		if m == q {
			return nil
		}
		return []int{1}
	})
	require.Equal(t, 1, h.watch.Members())
	require.Less(t, h.watch.Bytes(), bytes)
	h.watch.Request(p.ID, Request{Second: h.second + 1, Path: []byte("/else"), Took: time.Second, Timed: true})
	fired := h.next(p.ID, 0, 1)
	require.Len(t, fired, 1)
	require.Equal(t, []model.Cause{{Monitor: "process_cpu", Threshold: 50, Value: 100}}, fired[0].Causes,
		"only the count has changed; the pattern still narrows")
	h.watch.Started("p", p.ID, h.at)
	h.watch.Replace([]Policy{{Name: "p", Silence: time.Minute, When: []Rule{slow}}}, func(*model.Process) []int { return []int{0} })
	h.watch.Request(p.ID, Request{Second: h.second + 1, Path: []byte("/pay"), Took: time.Second, Timed: true})
	require.Empty(t, h.tick(time.Second), "silence goes on")
	for range 59 {
		h.watch.Request(p.ID, Request{Second: h.second + 1, Path: []byte("/pay"), Took: time.Second, Timed: true})
		if fired = h.tick(time.Second); len(fired) > 0 {
			break
		}
	}
	require.Len(t, fired, 1)
}

// TestResume holds that a watch goes on where another one has ended: with the windows of who is added soon, with the host's, and with
// silence, whatever its policies are; a trigger whose outcome is not known is returned again.
func TestResume(t *testing.T) {
	busy := Rule{Monitor: monitor.ProcessCPU, Threshold: 50, Period: 10, Count: 3}
	load := Rule{Monitor: monitor.SystemLoad, Threshold: 4, Period: 10, Count: 3}
	failing := Rule{Monitor: monitor.HTTPErrorRate, Threshold: 50, Period: 10, Count: 2}
	policies := []Policy{{Name: "silent", When: []Rule{busy}}, {Name: "asked", When: []Rule{failing}}, {Name: "load", When: []Rule{load}}}
	h := newHost(t, policies...)
	p, gone := process(7), process(8)
	for _, one := range []*model.Process{p, gone} {
		h.watch.Add(one, []int{0, 1, 2})
	}
	h.load = 5
	var fired []Trigger
	for range 2 {
		h.watch.Request(p.ID, Request{Second: h.second + 1, Path: []byte("/"), Status: 500})
		fired = append(fired, h.next(p.ID, 2*time.Second, 1)...)
	}
	require.Len(t, fired, 1)
	require.Equal(t, "asked", fired[0].Policy.Name)
	h.watch.Started("silent", p.ID, h.at)
	windows := h.watch.requestWindows
	require.Equal(t, 1, windows)

	before := h.watch
	h.watch = Resume(before)
	h.watch.Replace(append(policies, Policy{Name: "new", When: []Rule{busy}}), func(*model.Process) []int { return nil })
	h.watch.Add(p, []int{0, 1, 2, 3})
	h.at, h.second = h.at+2*time.Second, h.second+2 // of the restart
	fired = h.next(p.ID, 6*time.Second, 1)
	var names []string
	for _, f := range fired {
		names = append(names, f.Policy.Name)
	}
	require.Equal(t, []string{"asked", "load"}, names)
	require.Equal(t, 5.0, fired[1].Causes[0].Value)
	require.Zero(t, h.watch.Stats().Missed, "no watch ran")
	percent, ok := h.watch.members[p.ID].used.CPUPercent()
	require.True(t, ok)
	require.Equal(t, 100.0, percent, "of all the time since the last look")

	require.Contains(t, h.watch.inherited, gone.ID)
	for range inheritFor + 1 {
		h.tick(time.Second)
	}
	require.Nil(t, h.watch.inherited)
	h.watch.Remove(p.ID)
	require.Zero(t, h.watch.requestWindows)
	require.Zero(t, h.watch.bytes)
}

// TestResumeTwice holds that who was not added yet when a watch ended goes on in the one after it as well, with its silence and its
// windows, and that what these take is given back.
func TestResumeTwice(t *testing.T) {
	busy := Policy{Name: "p", Silence: time.Hour, When: []Rule{{Monitor: monitor.ProcessCPU, Threshold: 50, Period: 60, Count: 3}}}
	failing := Policy{Name: "failing", Silence: time.Hour, When: []Rule{{Monitor: monitor.HTTPErrorRate, Threshold: 50, Period: 60, Count: 2}}}
	h := newHost(t, busy, failing)
	p, gone := process(7), process(8)
	for _, one := range []*model.Process{p, gone} {
		h.watch.Add(one, []int{0, 1})
		h.watch.Request(one.ID, Request{Second: h.second, Path: []byte("/"), Status: 500})
	}
	h.tick(time.Second)
	h.watch.Request(p.ID, Request{Second: h.second, Path: []byte("/"), Status: 500})
	require.Len(t, h.tick(time.Second), 1)
	h.watch.Started("failing", p.ID, h.at)
	for range 2 {
		require.Empty(t, h.next(p.ID, 2*time.Second, 1))
	}
	for range 3 {
		h.watch = Resume(h.watch)
		h.watch.Replace([]Policy{busy, failing}, func(*model.Process) []int { return nil })
		require.Empty(t, h.tick(time.Second))
	}
	h.watch.Add(p, []int{0, 1})
	h.watch.Request(p.ID, Request{Second: h.second + 1, Path: []byte("/"), Status: 500})
	fired := h.next(p.ID, 8*time.Second, 1)
	require.Len(t, fired, 1, "the other one is silent")
	require.Equal(t, "p", fired[0].Policy.Name, "two seconds of before, and this one")
	for range inheritFor + 1 {
		h.tick(time.Second)
	}
	h.watch.Remove(p.ID)
	require.Zero(t, h.watch.gaugeWindows)
	require.Zero(t, h.watch.requestWindows)
	require.Zero(t, h.watch.bytes)
}

// TestProcessesComeAndGo holds that who has ended leaves nothing.
func TestProcessesComeAndGo(t *testing.T) {
	list := Rule{Monitor: monitor.HTTPErrorRate, Threshold: 1, Period: 100, Count: 50, Paths: []string{"/a", "/b"}}
	h := newHost(t, Policy{When: []Rule{list, {Monitor: monitor.ProcessCPU, Threshold: 1, Period: 3600, Count: 1}}})
	empty := h.watch.Bytes()
	for pid := range uint32(100) {
		p := process(pid)
		h.watch.Add(p, []int{0})
		for _, path := range []string{"/a", "/b", "/c"} {
			h.watch.Request(p.ID, Request{Second: h.second, Path: []byte(path), Status: 500})
		}
		h.watch.Add(p, []int{0}) // it runs another program
	}
	require.Greater(t, h.watch.Bytes(), empty)
	h.tick(time.Second)
	for pid := range uint32(100) {
		h.watch.Remove(model.ProcessID{PID: pid, StartTicks: 1})
		h.watch.Remove(model.ProcessID{PID: pid, StartTicks: 1})
	}
	require.Zero(t, h.watch.Members())
	require.Equal(t, empty+uint64(h.watch.policies[0].paths.bytes), h.watch.Bytes(), "three paths are remembered for who comes next")
	require.Less(t, h.watch.policies[0].paths.bytes, 300)
	require.Zero(t, h.watch.requestWindows)
	h.watch.Request(model.ProcessID{PID: 1, StartTicks: 1}, Request{Second: h.second, Status: 500})
	require.Empty(t, h.watch.Late(h.at))
}

// TestRequestWindowsAreBounded holds that paths do not take memory without a bound.
func TestRequestWindowsAreBounded(t *testing.T) {
	rule := Rule{Monitor: monitor.HTTPErrorRate, Threshold: 1, Period: 10, Count: 1}
	for i := range 64 {
		rule.Paths = append(rule.Paths, fmt.Sprint("/", i))
	}
	h := newHost(t, Policy{When: []Rule{rule}})
	for pid := range uint32(maxRequestWindows/64 + 1) {
		p := process(pid)
		h.watch.Add(p, []int{0})
		for _, path := range rule.Paths {
			h.watch.Request(p.ID, Request{Second: h.second, Path: []byte(path), Status: 200})
		}
	}
	require.Equal(t, uint64(64), h.watch.Stats().Crowded)
	require.Less(t, h.watch.Bytes(), uint64(12<<20))
}

// TestWindowsOfProcessesAreBounded holds that processes and rules do not take memory without a bound, that what finds no room is
// counted, and that there is room again when others have ended.
func TestWindowsOfProcessesAreBounded(t *testing.T) {
	const rules, processes = 64, maxGaugeWindows/64 + 2
	var many Policy
	for i := range rules {
		many.When = append(many.When, Rule{Monitor: monitor.ProcessThreadCount, Threshold: float64(1000 + i), Period: 60, Count: 60})
	}
	many.When[0] = Rule{Monitor: monitor.ProcessThreadCount, Threshold: 7, Period: 1, Count: 1}
	h := newHost(t, many)
	for pid := range uint32(processes) {
		h.watch.Add(process(pid), []int{0})
		h.used[process(pid).ID] = Usage{Threads: 7}
	}
	require.Len(t, h.tick(time.Second), processes-2, "the last two are not watched")
	require.Equal(t, uint64(2*rules), h.watch.Stats().Crowded)
	require.Less(t, h.watch.Bytes(), uint64(24<<20))
	h.watch.Remove(process(5).ID)
	fired := h.tick(time.Second)
	require.Len(t, fired, 1, "one of them has the room of the one that has ended")
	require.GreaterOrEqual(t, fired[0].Process.ID.PID, uint32(processes-2))
	require.Equal(t, uint64(3*rules), h.watch.Stats().Crowded)
	for pid := range uint32(processes) {
		h.watch.Remove(process(pid).ID)
	}
	require.Zero(t, h.watch.gaugeWindows)
}

// TestValues holds that the value of each monitor is returned once.
func TestValues(t *testing.T) {
	h := newHost(t, Policy{When: []Rule{
		{Monitor: monitor.ProcessCPU, Threshold: 1, Period: 10, Count: 10}, {Monitor: monitor.ProcessCPU, Threshold: 2, Period: 10, Count: 10},
		{Monitor: monitor.ProcessThreadCount, Threshold: 50, Period: 10, Count: 10},
		{Monitor: monitor.SystemLoad, Threshold: 50, Period: 10, Count: 10},
		{Monitor: monitor.HTTPErrorRate, Threshold: 50, Period: 10, Count: 10, Paths: []string{"/a", "/b"}},
	}})
	p := process(7)
	h.load = 3
	h.watch.Add(p, []int{0})
	h.tick(time.Second)
	h.watch.Request(p.ID, Request{Second: h.second + 1, Path: []byte("/b"), Status: 500})
	h.tick(time.Second)
	h.next(p.ID, time.Second, 4)
	var got []Value
	h.watch.Values(func(v Value) { got = append(got, v) })
	require.Equal(t, []Value{
		{Policy: "p", Monitor: monitor.SystemLoad, Value: 3},
		{Policy: "p", Process: p, Monitor: monitor.ProcessCPU, Value: 50},
		{Policy: "p", Process: p, Monitor: monitor.ProcessThreadCount, Value: 4},
		{Policy: "p", Process: p, Monitor: monitor.HTTPErrorRate, Path: "/b", Value: 100},
	}, got)
	got = nil
	h.next(p.ID, time.Second, 4)
	h.watch.Values(func(v Value) { got = append(got, v) })
	require.Len(t, got, 3, "that of requests was returned: there was none since")
}

// TestTargets holds that what a rule asks for is among what requests are looked at for.
func TestWantedBy(t *testing.T) {
	http := func(pattern string, paths ...string) Policy {
		r := Rule{Monitor: monitor.HTTPErrorRate, Paths: paths}
		if pattern != "" {
			r.Pattern = regexp.MustCompile(pattern)
		}
		return Policy{When: []Rule{{Monitor: monitor.ProcessCPU}, r}}
	}
	for _, tc := range []struct {
		policies []Policy
		want     Wanted
	}{
		{[]Policy{http("^/pay"), http("", "/payment", "/cart", "/cart")}, Wanted{Begun: []string{"/pay"}, Counted: []string{"/cart", "/payment"}}},
		{[]Policy{http("^/pay/[0-9]"), http("^/pay"), http("^/pay/more"), http("^/pay")}, Wanted{Reported: []string{"/pay/"}, Begun: []string{"/pay"}}},
		{[]Policy{http("", "/", "/pay"), http("")}, Wanted{Counted: []string{"/", "/pay"}, Rest: true}},
		{[]Policy{{When: []Rule{{Monitor: monitor.ProcessCPU}}}}, Wanted{}},
		{[]Policy{http("^/pay"), http(""), http("^/payment"), http("^/a ")}, Wanted{Reported: []string{"/a "}, Begun: []string{"/pay", "/payment"}, Rest: true}},
		{[]Policy{http("", "/x"), http("pay")}, Wanted{All: true}},
		{[]Policy{http("^/ab|/ac")}, Wanted{All: true}},
		{[]Policy{http("(?i)^/pay")}, Wanted{All: true}},
		{[]Policy{http("^/pay/[0-9]+$")}, Wanted{Reported: []string{"/pay/"}}},
		{[]Policy{http("^/pays?")}, Wanted{Reported: []string{"/pay"}}},
		{[]Policy{http("^(/a|/b)")}, Wanted{All: true}},
	} {
		require.Equal(t, tc.want, WantedBy(tc.policies))
	}
}

// BenchmarkTick is a look at a thousand processes with three rules each.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := New([]Policy{{Name: "p", When: []Rule{
				{Monitor: monitor.ProcessCPU, Threshold: 80, Period: 60, Count: 10},
				{Monitor: monitor.ProcessThreadCount, Threshold: 500, Period: 60, Count: 10},
				{Monitor: monitor.HTTPErrorRate, Threshold: 5, Period: 60, Count: 10},
			}}})
			for pid := range uint32(n) {
				w.Add(process(pid), []int{0})
			}
			r := Reading{Second: 1000, At: 1000 * time.Second, CPUs: 2}
			r.Usage = func(id model.ProcessID) (Usage, bool) { return Usage{CPU: r.At / 10, Threads: 7}, true }
			for b.Loop() {
				r.Second++
				r.At += time.Second
				w.Tick(r)
			}
			b.ReportMetric(float64(w.Bytes()), "B-held")
		})
	}
}

// TestSilenceOutlastsAMatch holds that a process which a policy matches no more for a while, as where its port is closed and opened
// anew, gets no second run within its silence, and that nothing stays of one that has ended.
func TestSilenceOutlastsAMatch(t *testing.T) {
	for name, answered := range map[string]bool{"answered while it matched": true, "answered when it did not": false} {
		t.Run(name, func(t *testing.T) {
			silent := Policy{Name: "silent", Silence: 20 * time.Second, When: []Rule{{Monitor: monitor.ProcessThreadCount, Threshold: 1, Period: 1, Count: 1}}}
			h := newHost(t, silent, cpuRule(100, 10, 10))
			p := process(7)
			h.watch.Add(p, []int{0})
			require.Len(t, h.next(p.ID, 0, 1), 1)
			if answered {
				h.watch.Started("silent", p.ID, h.at)
			}
			h.watch.Add(p, nil)
			require.Zero(t, h.watch.Members())
			h.watch.Started("silent", p.ID, h.at)
			require.Empty(t, h.next(p.ID, 0, 1), "it is not watched")
			h.watch.Add(p, []int{1})
			h.watch.Replace([]Policy{silent, cpuRule(100, 10, 10)}, func(*model.Process) []int { return nil })
			h.watch.Add(p, []int{0, 1})
			require.Equal(t, 1, h.watch.Members())
			for range 18 {
				require.Empty(t, h.next(p.ID, 0, 1), "silence")
			}
			require.Len(t, h.next(p.ID, 0, 1), 1)
			h.watch.Started("silent", p.ID, h.at)
			h.watch.Add(p, nil)
			h.watch.Remove(p.ID)
			require.Equal(t, New(nil).Bytes(), h.watch.Bytes())
			require.Empty(t, h.watch.members)
		})
	}
}

// TestUseWhileUnwatched holds that CPU time which a process used while no policy watched it, or while it could not be read, counts for no second.
func TestUseWhileUnwatched(t *testing.T) {
	policies := []Policy{{Name: "p", Silence: 400 * time.Second, When: []Rule{{Monitor: monitor.ProcessCPU, Threshold: 15, Period: 5, Count: 1}}}}
	for name, gap := range map[string]struct {
		begin, end func(h *host, p *model.Process)
	}{
		"it matched none": {
			func(h *host, p *model.Process) { h.watch.Add(p, nil) }, func(h *host, p *model.Process) { h.watch.Add(p, []int{0}) },
		},
		"over a reload": {
			func(h *host, p *model.Process) { h.watch.Add(p, nil) },
			func(h *host, p *model.Process) {
				h.watch = Resume(h.watch)
				h.watch.Replace(policies, nil)
				h.watch.Add(p, []int{0})
			},
		},
		"policies changed": {
			func(h *host, _ *model.Process) { h.watch.Replace(policies, func(*model.Process) []int { return nil }) },
			func(h *host, _ *model.Process) {
				h.watch.Replace(policies, func(*model.Process) []int { return []int{0} })
			},
		},
		"no room": {func(*host, *model.Process) {}, func(h *host, p *model.Process) { h.watch.Unread(p.ID); h.watch.Add(p, []int{0}) }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, policies...)
			p := process(7)
			h.watch.Add(p, []int{0})
			h.tick(time.Second)
			h.watch.Started("p", p.ID, h.at)
			gap.begin(h, p)
			h.at, h.second = h.at+400*time.Second, h.second+400
			h.used[p.ID] = Usage{CPU: 200 * time.Second}
			gap.end(h, p)
			for range 7 {
				require.Empty(t, h.next(p.ID, 0, 1))
			}
			require.Len(t, h.next(p.ID, time.Second, 1), 1, "what it uses now counts")
		})
	}
}

// TestNothingRests holds that a policy which was never asked for, or is there no more, keeps nothing of a process that it does not match.
func TestNothingRests(t *testing.T) {
	h := newHost(t, cpuRule(100, 10, 10))
	p := process(7)
	h.watch.Add(p, []int{0})
	h.watch.Add(p, nil)
	require.Empty(t, h.watch.order)
	h.watch.Add(p, []int{0})
	h.watch.Started("p", p.ID, h.at)
	h.watch.Replace(nil, func(*model.Process) []int { return nil })
	require.Empty(t, h.watch.order)
}
