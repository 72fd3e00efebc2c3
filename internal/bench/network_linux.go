// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/report"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/observetest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process/lifecycle"
)

const (
	// networkTurns is how often each state is measured, in turns with the others, and networkTime
	// how long each time. The time that a host takes for the same work differs by half from one
	// second to the next: only the median of many ratios shows a few percent.
	networkTurns = 28
	networkTime  = time.Second
	// statisticsWait is how long others may have the kernel's statistics of programs on.
	statisticsWait = 2 * time.Minute
	// networkReport is the default of report_interval.
	networkReport = 2 * time.Second
	// networkBytes, networkSockets and networkConnections are shares of the default of limits.memory_mib.
	networkBytes, networkSockets, networkConnections = 32 << 20, 64 << 20, 64 << 20
)

// network measures what network adds to nginx's CPU time for a request. The kernel's
// statistics of programs must be off: with them each run of a program, of an empty one
// too, takes longer.
func (b *bench) network(ctx context.Context) (err error) {
	progress("network: nginx and wrk, all states in %d turns of %s", networkTurns, networkTime)
	server, err := workload.StartWeb(ctx, b.dir, b.nice)
	if errors.Is(err, workload.ErrAbsent) {
		b.note("the part network was left out: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	same := network.Tracepoints()
	states := []networkState{
		{report.NetworkBare, func() (*watcher, error) { return &watcher{}, nil }},
		{report.NetworkEmptySame, func() (*watcher, error) { return emptyTracepoints(same) }},
		{report.NetworkOutside, func() (*watcher, error) { return watchNginx(networkConfig(), server.PID(), lifecycle.ScopeNone) }},
		// In addition to both that are judged by it.
		{report.NetworkEmpty, func() (*watcher, error) { return emptyTracepoints(bothEnds(same)) }},
		{report.NetworkInside, func() (*watcher, error) { return watchNginx(networkConfig(), server.PID(), lifecycle.ScopeNetwork) }},
	}
	b.report.Network, err = b.inTurns(ctx, server, networkTurns, states)
	return err
}

// networkState is what is attached while nginx's CPU time is measured.
type networkState struct {
	name  string
	begin func() (*watcher, error)
}

// inTurns measures nginx's CPU time in all states in turns.
func (b *bench) inTurns(ctx context.Context, server *workload.Web, turns int, states []networkState) ([]report.Network, error) {
	measured := make([]report.Network, len(states))
	for n := range turns {
		for i := range states {
			if n%2 == 1 { // none is always the one after another
				i = len(states) - 1 - i
			}
			state := states[i]
			turn, err := b.undisturbedTurn(ctx, server, state.begin)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", state.name, err)
			}
			measured[i].State = state.name
			measured[i].Turns = append(measured[i].Turns, turn)
		}
	}
	return measured, nil
}

// undisturbedTurn takes a turn again while another program has the kernel's statistics of programs on.
func (b *bench) undisturbedTurn(ctx context.Context, server *workload.Web, begin func() (*watcher, error)) (turn report.NetworkTurn, err error) {
	for began := time.Now(); ; {
		on, err := statisticsOn()
		if err == nil && !on {
			if turn, err = b.networkTurn(ctx, server, begin); err == nil {
				on, err = statisticsOn()
			}
		}
		switch {
		case err != nil:
			return turn, err
		case !on:
			return turn, nil
		case time.Since(began) > statisticsWait:
			return turn, fmt.Errorf("the kernel's statistics of BPF programs have been on for %s, which another program on this host must "+
				"have asked for (a Collector with this receiver does): end it and measure again", statisticsWait)
		}
		b.note("turns of the part network were taken again: another program had the kernel's statistics of BPF programs on")
		if err := sleep(ctx, time.Second); err != nil {
			return turn, err
		}
	}
}

func (b *bench) networkTurn(ctx context.Context, server *workload.Web, begin func() (*watcher, error)) (turn report.NetworkTurn, err error) {
	watching, err := begin()
	if err != nil {
		return turn, err
	}
	defer func() { err = errors.Join(err, watching.end()) }()
	before, err := proc.CPUTime(server.PID())
	if err != nil {
		return turn, err
	}
	client, err := server.Load(ctx, networkTime)
	if err != nil {
		return turn, err
	}
	if watching.tracker != nil { // or it would be asked about
		err = watching.tracker.Decide(uint32(client.PID()), lifecycle.ScopeNone)
	}
	counted, failed := client.Requests()
	if err := errors.Join(err, failed); err != nil {
		return turn, err
	}
	after, err := proc.CPUTime(server.PID())
	if err != nil {
		return turn, err
	}
	if counted == 0 {
		return turn, errors.New("wrk has counted no request")
	}
	if err := watching.plausible(counted); err != nil {
		return turn, err
	}
	return report.NetworkTurn{
		CPU: each(after-before, counted), RequestRate: float64(counted) / networkTime.Seconds(),
	}, nil
}

// bothEnds are the tracepoints at the beginning and at the end of the system calls of
// which one or the other is used.
func bothEnds(used []network.Tracepoint) []network.Tracepoint {
	var list []network.Tracepoint
	seen := map[string]bool{}
	for _, t := range used {
		call := strings.TrimPrefix(strings.TrimPrefix(t.Name, "sys_enter_"), "sys_exit_")
		if call == t.Name || seen[call] {
			continue
		}
		seen[call] = true
		list = append(list, network.Tracepoint{Group: t.Group, Name: "sys_enter_" + call}, network.Tracepoint{Group: t.Group, Name: "sys_exit_" + call})
	}
	return list
}

// watcher is what is attached in a state.
type watcher struct {
	inside   bool // nginx is in scope
	requests bool // and its requests are exported
	// answers counts the requests of nginx that policies receive; wanted: they are of interest to a policy.
	answers *atomic.Uint64
	wanted  bool
	// takeCounted adds those that the kernel has counted.
	takeCounted func() error
	tracker     *lifecycle.Tracker
	observer    *network.Observer
	closers     []io.Closer
	stop        chan struct{} // ends the drains
	done        chan error
}

// stopDraining ends what watchNetwork has started.
func (w *watcher) stopDraining() error {
	if w.stop == nil {
		return nil
	}
	close(w.stop)
	w.stop = nil
	return <-w.done
}

// plausible refuses a turn in which the observation has not seen what it should have: nginx reads and writes once for
// each request.
func (w *watcher) plausible(requests uint64) error {
	if w.observer == nil {
		return nil
	}
	if err := w.stopDraining(); err != nil {
		return err
	}
	found := w.observer.Report(time.Now()) // counts
	// Some may be lost at full speed.
	if exported := exportedOf(found, serverDurations, 0); w.requests && exported < requests/2 {
		return fmt.Errorf("the observation exported %d of %d requests", exported, requests)
	}
	if w.answers != nil {
		if err := w.takeCounted(); err != nil {
			return err
		}
		received := w.answers.Load()
		if w.wanted && received < requests/2 || !w.wanted && received > 0 {
			return fmt.Errorf("policies received %d of %d requests", received, requests)
		}
	}
	switch seen := w.observer.Samples(); {
	case w.inside && seen < 2*requests:
		return fmt.Errorf("the observation counted %d operations of the %d that %d requests are", seen, 2*requests, requests)
	case !w.inside && seen > requests/2: // some are those of other programs on the host, before they are decided upon
		return fmt.Errorf("the observation counted %d operations while a process out of scope answered %d requests", seen, requests)
	}
	return nil
}

// end detaches everything, last first.
func (w *watcher) end() error {
	errs := []error{w.stopDraining()}
	for i := len(w.closers) - 1; i >= 0; i-- {
		errs = append(errs, w.closers[i].Close())
	}
	return errors.Join(errs...)
}

// networkConfig is network with its defaults, without requests.
func networkConfig() network.Config {
	return network.Config{MapBytes: networkBytes, SocketBytes: networkSockets, ConnectionBytes: networkConnections, SysRoot: "/sys", ProcRoot: string(proc), Logger: zap.NewNop()}
}

// startNetwork starts the observation of some processes and of no other that runs, without draining it. As in the
// engine, they are decided upon when the observation has asked about them.
func startNetwork(config network.Config, processes map[int]lifecycle.Scope) (_ *watcher, err error) {
	w := &watcher{requests: config.Requests}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.end())
		}
	}()
	loader := kernel.NewLoader()
	if w.tracker, err = lifecycle.Start(loader, 32768); err != nil {
		return nil, err
	}
	w.closers = append(w.closers, w.tracker)
	host := observetest.NewHost()
	host.Everybody = true
	w.observer, err = network.Start(config, loader, w.tracker.SharedMaps(), host)
	if err != nil {
		return nil, err
	}
	w.closers = append(w.closers, w.observer)
	return w, w.decide(processes)
}

func (w *watcher) decide(processes map[int]lifecycle.Scope) error {
	asked, err := w.tracker.Decided()
	if err != nil {
		return err
	}
	for _, pid := range asked {
		if err := w.tracker.Decide(pid, lifecycle.ScopeNone); err != nil {
			return err
		}
	}
	for pid, scope := range processes {
		if err := w.tracker.Decide(uint32(pid), scope); err != nil {
			return err
		}
	}
	return nil
}

func watchNginx(config network.Config, pid int, scope lifecycle.Scope) (*watcher, error) {
	w, err := watchNetwork(config, map[int]lifecycle.Scope{pid: scope})
	if err == nil {
		w.inside = scope == lifecycle.ScopeNetwork
	}
	return w, err
}

// watchNetwork observes processes as the engine does.
func watchNetwork(config network.Config, processes map[int]lifecycle.Scope) (*watcher, error) {
	w, err := startNetwork(config, processes)
	if err != nil {
		return nil, err
	}
	w.stop, w.done = make(chan struct{}), make(chan error, 1)
	go func(stop <-chan struct{}) { w.done <- w.drain(stop) }(w.stop)
	return w, nil
}

func (w *watcher) drain(stop <-chan struct{}) error {
	drains, reports := time.NewTicker(w.observer.DrainInterval()), time.NewTicker(networkReport)
	defer drains.Stop()
	defer reports.Stop()
	var errs []error
	for {
		select {
		case <-stop:
			return errors.Join(errs...)
		case <-drains.C:
			if err := w.observer.Drain(); err != nil && len(errs) == 0 {
				errs = append(errs, err)
			}
			w.observer.Logs()
		case at := <-reports.C:
			w.observer.Report(at)
		}
	}
}

// emptyTracepoints attaches an empty program to tracepoints of system calls; those that
// the architecture does not have are left out.
func emptyTracepoints(at []network.Tracepoint) (_ *watcher, err error) {
	w := &watcher{}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.end())
		}
	}()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "empty", Type: ebpf.TracePoint, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return nil, fmt.Errorf("loading an empty program: %w", err)
	}
	w.closers = append(w.closers, program)
	tracepoints, err := kernel.OpenTracepoints("/sys")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, tracepoints.Close()) }()
	for _, t := range at {
		attached, err := tracepoints.Attach(program, t.Group, t.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		w.closers = append(w.closers, attached)
	}
	return w, nil
}

// statisticsOn reports whether the kernel's statistics of programs are turned on by any process of this host: a program that is run once
// shows this.
func statisticsOn() (on bool, err error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "probe", Type: ebpf.SocketFilter, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return false, fmt.Errorf("asking whether programs are measured: %w", err)
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	if _, _, err := program.Test(make([]byte, 14)); err != nil {
		return false, fmt.Errorf("asking whether programs are measured: %w", err)
	}
	stats, err := program.Stats()
	if err != nil {
		return false, fmt.Errorf("asking whether programs are measured: %w", err)
	}
	return stats.RunCount > 0, nil
}
