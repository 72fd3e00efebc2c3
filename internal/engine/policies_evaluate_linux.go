// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
)

// run evaluates the policies at the end of each second, and again when its requests have arrived.
func (p *policies) run(ctx context.Context) {
	now, second, ends, _ := p.readClocks()
	timer := time.NewTimer(ends - now)
	defer timer.Stop()
	late := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if late {
			p.work(p.evaluateLate)
		}
		var stepped int64
		before := second
		now, second, ends, stepped = p.readClocks()
		if stepped != 0 {
			p.logger.Info("The wall clock was set; seconds of policies go on", zap.Int64("by_seconds", stepped))
		}
		evaluated := second > before
		if evaluated {
			p.work(func() { p.evaluate(second-1, now) })
		}
		late = evaluated && !late && p.usesRequests()
		wait := ends - now
		if late {
			wait = lateEvaluation
		}
		timer.Reset(max(wait, 0))
	}
}

// evaluate reads the values of a second at its end, and evaluates the policies.
func (p *policies) evaluate(ended int64, now time.Duration) {
	if err := p.reader.Read(); err != nil {
		p.warnings.Warn(fmt.Errorf("%s have no values: %w", strings.Join(monitor.Names((*monitor.Descriptor).OfProcesses), " and "), err))
	}
	at := p.clock.boot()
	if at >= p.cpusDue {
		p.countCPUs(at)
	}
	p.fire(p.watch.Tick(policy.Reading{
		Second: ended, At: at, CPUs: p.cpus, Host: p.readHost(at),
		Usage: func(id model.ProcessID) (policy.Usage, bool) {
			u, ok := p.reader.Of(id)
			return policy.Usage(u), ok
		},
	}))
	if now >= p.reported+valuesInterval {
		p.reported = now
		if found := values(p.watch, p.byInstance, time.Now()); p.exportMetrics != nil && len(found) > 0 {
			p.exportMetrics(found)
		}
	}
}

func (p *policies) evaluateLate() {
	p.takeCounted()
	p.fire(p.watch.Late(p.clock.boot()))
}

// readClocks reads the clocks, as [clock.follow] does, and has programs count requests by them.
func (p *policies) readClocks() (now time.Duration, second int64, ends time.Duration, stepped int64) {
	now, second, ends, stepped = p.clock.follow()
	if p.paths != nil {
		if err := p.paths.SetClock(p.clock.ahead()); err != nil {
			p.warnings.Warn(err)
		}
	}
	return now, second, ends, stepped
}

// takeCounted takes the requests that were counted in the kernel.
func (p *policies) takeCounted() {
	if p.paths == nil {
		return
	}
	err := p.paths.Take(p.clock.second(p.clock.now().monotonic.Nanoseconds()), func(c network.Count) {
		p.watch.Requests(c.Subject.ID(), policy.Requests{
			Second: c.Second, Path: []byte(c.Path), Begins: c.Begins, Known: c.Requests, Errors: c.Errors, Timed: c.Requests, Took: c.Took,
		})
	})
	if err != nil {
		p.warnings.Warn(fmt.Errorf("monitors of requests have too low values: %w", err))
	}
}

// fire passes triggers to the goroutines that start tasks.
func (p *policies) fire(fired []policy.Trigger) {
	if len(fired) == 0 {
		return
	}
	p.mu.Lock()
	p.triggers = append(p.triggers, fired...)
	p.mu.Unlock()
	rouse(p.fired)
}

func (p *policies) countCPUs(now time.Duration) {
	p.cpusDue = now + cpusInterval
	online, err := kernel.OnlineCPUs(p.sys)
	if err != nil {
		p.warnings.Warn(err)
		return
	}
	p.cpus = len(online)
}

// usesRequests reports whether any policy uses requests.
func (p *policies) usesRequests() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.entries {
		if p.entries[i].OfRequests() {
			return true
		}
	}
	return false
}

// answered takes a request that a process has answered, or that has ended without a response.
func (p *policies) answered(a observe.Answer) {
	p.watch.Request(a.Subject.ID(), policy.Request{
		Second: p.clock.second(a.Ended), Path: a.Path, Begins: a.Begins, Status: a.Status, Unanswered: a.Unanswered, Took: a.Took, Timed: a.Timed,
	})
}
