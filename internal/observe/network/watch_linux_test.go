// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/conntrack"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/observetest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

// watching is an observer that runs, with what decides about its scope.
type watching struct {
	*Observer
	t       testing.TB
	tracker *lifecycle.Tracker
	last    model.Findings
	// missedBefore is how often programs did not run before the test, lostBefore what was lost by then.
	missedBefore uint64
	lostBefore   map[string]uint64
}

func config() Config {
	return Config{MapBytes: 16 << 20, SocketBytes: 16 << 20, ConnectionBytes: 64 << 20, ResolveNAT: true, SysRoot: "/sys", ProcRoot: "/proc", Logger: zap.NewNop()}
}

// watch starts an observer of all processes of this test; change may remove features of the kernel. The known processes are decided to be in scope before.
func watch(t *testing.T, config Config, change func(*features), known ...*nettest.Program) *watching {
	t.Helper()
	w := observing(t, config, change, known...)
	t.Cleanup(func() { require.NoError(t, w.end()) })
	return w
}

// observing returns an observer that does not end with the test.
func observing(t testing.TB, config Config, change func(*features), known ...*nettest.Program) *watching {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	require.NoError(t, endRecorded(), "two that capture at a time would be slower than the one")
	loader := kernel.NewLoader()
	tracker, err := lifecycle.Start(loader, 1<<17) // all processes of the host are in scope, and the exit of a process removes nothing here
	require.NoError(t, err)
	for _, p := range known {
		require.NoError(t, tracker.Decide(uint32(p.PID()), lifecycle.ScopeNetwork))
	}
	host := observetest.NewHost()
	host.Everybody, host.Foreign = true, followForks(tracker).foreign
	has := featuresFor(t)
	if change != nil {
		change(&has)
	}
	o, err := start(config, has, loader, tracker.SharedMaps(), host)
	var refused *ebpf.VerifierError
	if errors.As(err, &refused) {
		for _, line := range refused.Log[max(0, len(refused.Log)-60):] {
			t.Log(line)
		}
	}
	require.NoError(t, err)
	return &watching{Observer: o, t: t, tracker: tracker}
}

func (w *watching) end() error { return errors.Join(w.Close(), w.tracker.Close()) }

// ways are those by which a kernel can be observed. Attaching and detaching takes seconds on an emulated CPU, so that most tests share one
// observer for each.
var ways = []*way{
	{name: "tracepoints", has: func(f features) bool { return f.lengths }, change: func(f *features) { f.trampolines = false }},
	{name: "trampolines", has: func(f features) bool { return f.trampolines }},
}

type way struct {
	name   string
	has    func(features) bool
	change func(*features)
	// shared is the observer that tests share, recorded the one whose exchanges the test in recording records.
	shared, recorded *watching
	recording        atomic.Pointer[overheard]
}

// eachWay runs a test with every way by which the running kernel can be observed.
func eachWay(t *testing.T, test func(t *testing.T, start func() *watching)) {
	t.Helper()
	runEachWay(t, func(t *testing.T, by *way) {
		test(t, func() *watching { return by.share(t) })
	})
}

// share returns the observer that tests share.
func (by *way) share(t *testing.T) *watching {
	t.Helper()
	if by.shared == nil {
		by.shared = observing(t, config(), by.change)
	}
	by.shared.begin(t)
	by.shared.forgetTranslations()
	return by.shared
}

// begin makes a shared observer that of a test: what was missed and lost before does not count.
func (w *watching) begin(t *testing.T) {
	t.Helper()
	w.t = t
	if w.capture != nil {
		w.settle() // what belongs to an earlier test
	}
	w.missedBefore, w.lostBefore = w.missedBefore+w.missed(), map[string]uint64{}
	for _, l := range w.Losses() {
		w.lostBefore[l.Reason] = l.Count
	}
}

// forgetTranslations makes connection tracking be queried anew: a namespace may have the number of a deleted one, of which it is known for a
// second that nothing is tracked there.
func (w *watching) forgetTranslations() {
	w.t.Helper()
	fresh, err := conntrack.New(conntrack.Config{ProcRoot: "/proc"})
	require.NoError(w.t, err)
	require.NoError(w.t, w.table.ends.nat.Close())
	w.table.ends.nat = fresh
}

// featuresFound are the kernel's features.
var featuresFound = sync.OnceValues(func() (features, error) { return featuresOf(kernel.NewLoader()) })

// featuresFor returns the kernel's features, for tests that need some.
func featuresFor(t testing.TB) features {
	t.Helper()
	has, err := featuresFound()
	if errors.Is(err, errNothing) && runtime.GOARCH == "arm64" {
		t.Skipf("kernels for arm64 have nothing to observe the network by before 6.3: %v", err)
	}
	require.NoError(t, err)
	return has
}

// eachWayAnew runs a test with every way by which the running kernel can be observed, with an observer of its own.
func eachWayAnew(t *testing.T, test func(t *testing.T, start func() *watching)) {
	t.Helper()
	runEachWay(t, func(t *testing.T, by *way) { test(t, func() *watching { return watch(t, config(), by.change) }) })
}

func runEachWay(t *testing.T, test func(*testing.T, *way)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loading BPF programs needs root")
	}
	has := featuresFor(t)
	able := slices.DeleteFunc(slices.Clone(ways), func(by *way) bool { return !by.has(has) }) // the kernel is known not to have it
	require.NotEmpty(t, able)
	if guest.Running() && testing.Short() {
		able = able[len(able)-1:] // the one that is tested separately
	}
	for _, by := range able {
		t.Run(by.name, func(t *testing.T) { test(t, by) })
	}
}

// untilSeen repeats a test that returns false because the kernel skipped programs, so that some of what the test did was not captured. It
// fails if that happens each time: what is compared only if all was captured is compared at least once. Emulated kernels skip programs often.
func untilSeen(t *testing.T, test func(t *testing.T) (seen bool)) {
	t.Helper()
	const attempts = 5
	for n := range attempts {
		seen := false
		passed := t.Run(fmt.Sprintf("attempt %d", n+1), func(t *testing.T) { seen = test(t) })
		if seen || !passed {
			return
		}
	}
	require.True(t, guest.Running(), "the kernel left out programs in each of %d attempts", attempts)
}

// runEachWayUntilSeen runs a test with each of ways, until all of it was captured.
func runEachWayUntilSeen(t *testing.T, test func(t *testing.T, by *way) (seen bool)) {
	t.Helper()
	runEachWay(t, func(t *testing.T, by *way) {
		untilSeen(t, func(t *testing.T) bool { return test(t, by) })
	})
}

// endAll stops the observers that tests share.
func endAll() (err error) {
	for _, by := range ways {
		if by.shared != nil {
			err = errors.Join(err, by.shared.end())
		}
	}
	return errors.Join(err, endRecorded())
}

// endRecorded stops the observers that tests share whose exchanges are recorded.
func endRecorded() (err error) {
	for _, by := range ways {
		if by.recorded != nil {
			err = errors.Join(err, by.recorded.end())
			by.recorded = nil
		}
	}
	return err
}

// report makes a report.
func (w *watching) report() {
	w.t.Helper()
	require.NoError(w.t, w.Drain())
	w.last = w.Report(time.Now())
}

// reportUntil makes reports until something holds: the kernel may free sockets some time after they are closed.
func (w *watching) reportUntil(holds func() bool, message ...any) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		w.report()
		return holds()
	}, time.Minute, time.Millisecond, message...)
}

// process is the one whose points are wanted; nil: no process.
type process interface{ PID() int }

// points returns those of a metric of a process that have all these attributes, written key=value.
func (w *watching) points(of process, metric string, wanted ...string) []model.Point {
	var list []model.Point
	for _, m := range w.last.Metrics {
		if of == nil && m.Process != nil || of != nil && (m.Process == nil || m.Process.ID.PID != uint32(of.PID())) {
			continue
		}
		for _, one := range m.Metrics {
			for _, p := range one.Points {
				if one.Name == metric && hasAll(p, wanted) {
					list = append(list, p)
				}
			}
		}
	}
	return list
}

func hasAll(p model.Point, wanted []string) bool {
	has := attributes(p)
	return !slices.ContainsFunc(wanted, func(a string) bool { return !slices.Contains(has, a) })
}

// attributes returns the attributes of a point as texts.
func attributes(p model.Point) []string {
	var list []string
	for _, a := range p.Attributes {
		switch a.Value.Type {
		case model.TextAttribute:
			list = append(list, a.Key+"="+a.Value.Text)
		case model.BoolAttribute:
			list = append(list, fmt.Sprintf("%s=%t", a.Key, a.Value.Int != 0))
		default:
			list = append(list, fmt.Sprintf("%s=%d", a.Key, a.Value.Int))
		}
	}
	return list
}

// sum adds up the points of a counter.
func (w *watching) sum(of process, metric string, wanted ...string) int64 {
	var sum int64
	for _, p := range w.points(of, metric, wanted...) {
		sum += p.Int
	}
	return sum
}

// histogram returns the only one that matches.
func (w *watching) histogram(of process, metric string, wanted ...string) *model.Histogram {
	w.t.Helper()
	points := w.points(of, metric, wanted...)
	if len(points) != 1 {
		w.show(of)
	}
	require.Len(w.t, points, 1, "%s %v", metric, wanted)
	return points[0].Histogram
}

// operations returns how many operations of a kind were reported of a process, with any peer.
func (w *watching) operations(of process, operation string) (sum int64) {
	for _, p := range w.points(of, "ebpf.network.operation.duration", "ebpf.operation="+operation) {
		sum += int64(p.Histogram.Count)
	}
	return sum
}

// show logs all that was reported of a process.
func (w *watching) show(of process) {
	for _, m := range w.last.Metrics {
		if of != nil && (m.Process == nil || m.Process.ID.PID != uint32(of.PID())) {
			continue
		}
		for _, one := range m.Metrics {
			for _, p := range one.Points {
				value := fmt.Sprint(p.Int)
				if p.Histogram != nil {
					value = fmt.Sprintf("%+v", *p.Histogram)
				}
				w.t.Logf("%v %s {%s} %s", m.Process, one.Name, strings.Join(attributes(p), " "), value)
			}
		}
	}
	w.t.Log(w.Losses())
}

// loss returns how much was lost for a reason since the test began.
func (w *watching) loss(reason string) uint64 {
	for _, l := range w.Losses() {
		if l.Reason == reason {
			return l.Count - w.lostBefore[reason]
		}
	}
	require.Fail(w.t, "no counter has that reason", reason)
	return 0
}

// endsInClose reports whether the kernel ends connections in close() (6.6), and not after that has returned.
func endsInClose(t testing.TB) bool {
	t.Helper()
	has, err := kernel.NewLoader().HasFunction("filp_flush")
	require.NoError(t, err)
	return has
}

// missed returns how often the kernel did not run a program since the test began.
func (w *watching) missed() uint64 {
	w.t.Helper()
	costs, err := w.Costs()
	require.NoError(w.t, err)
	var sum uint64
	for _, c := range costs {
		sum += c.Missed
	}
	return sum - w.missedBefore
}

// equal checks that what was counted is what it should be, within what the kernel says that it skipped: each time as much as each.
func (w *watching) equal(want, got, each int64, message ...any) {
	w.t.Helper()
	missed := int64(w.missed())
	require.InDelta(w.t, want, got, float64(each*missed), message...)
}
