// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
)

// run looks at the end of each second, and again when its requests have been told.
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
			p.work(p.lookLate)
		}
		var stepped int64
		before := second
		now, second, ends, stepped = p.readClocks()
		if stepped != 0 {
			p.logger.Info("The wall clock was set; seconds of policies go on", zap.Int64("by_seconds", stepped))
		}
		looked := second > before
		if looked {
			p.work(func() { p.look(second-1, now) })
		}
		late = looked && !late && p.hearsRequests()
		wait := ends - now
		if late {
			wait = lateLook
		}
		timer.Reset(max(wait, 0))
	}
}

// look reads what is to be known at the end of a second.
func (p *policies) look(ended int64, now time.Duration) {
	if err := p.reader.Read(); err != nil {
		p.warnings.Warn(fmt.Errorf("process_cpu and process_thread_count have no values: %w", err))
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
		if found := values(p.watch, time.Now()); p.tell != nil && len(found) > 0 {
			p.tell(found)
		}
	}
}

func (p *policies) lookLate() {
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

// fire hands triggers to those who start tasks.
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

// hearsRequests tells whether any policy looks at requests.
func (p *policies) hearsRequests() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.entries {
		if p.entries[i].OfRequests() {
			return true
		}
	}
	return false
}

// answered takes a request that a process has answered.
func (p *policies) answered(a network.Answer) {
	p.watch.Request(a.Subject.ID(), policy.Request{
		Second: p.clock.second(a.Ended), Path: a.Path, Begins: a.Begins, Status: a.Status, Took: a.Took, Timed: a.Timed,
	})
}
