// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/collector/component/componentstatus"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/garbage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// errStarting is why nothing is observed while the engine starts.
var errStarting = errors.New("the receiver is starting: its BPF programs are being loaded")

// observe starts the engine and then tasks, until ctx is done. What has begun by then is for stop to end.
func (r *ebpfReceiver) observe(ctx context.Context, config engine.Config, hooks engine.Hooks, taken observe.Signals) {
	began := time.Now()
	e, err := startEngine(ctx, config, hooks, r.settings.Logger)
	if err == nil {
		r.setEngine(e)
	}
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.observeNothing(err)
		return
	}
	garbage.Free()
	r.startTasks(config, hooks, taken)
	r.reportMissing(e.Stats())
	r.settings.Logger.Info("The receiver has started", zap.Duration("took", time.Since(began)))
}

// observeNothing reports why the engine cannot start.
func (r *ebpfReceiver) observeNothing(why error) {
	r.settings.Logger.Error("The receiver observes nothing", zap.Error(why))
	r.report(componentstatus.NewPermanentErrorEvent(why))
	r.setEngine(idle{capability: degradedStart, why: why})
}

func (r *ebpfReceiver) setEngine(e runner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engine = e
}

// running is the engine, or what stands for it; nil before Start.
func (r *ebpfReceiver) running() runner {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.engine
}

// charge adds the CPU time of work to what the engine has used, once it has started.
func (r *ebpfReceiver) charge(work func()) { r.running().Charge(work) }
