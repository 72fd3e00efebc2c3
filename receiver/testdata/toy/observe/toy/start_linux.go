// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package toy

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

var _ observe.Starter = (*Options)(nil)

// Start implements [observe.Starter].
func (o *Options) Start(env observe.Environment) (observe.Started, error) {
	observer := &observer{env: env, factor: int64(o.Factor), known: map[uint32]model.ProcessID{}}
	return observe.Started{
		Observation: observer,
		Describe:    func() (string, []zap.Field) { return fmt.Sprintf("multiplying by %d", o.Factor), nil },
	}, nil
}

var descriptor = &model.Descriptor{Name: "toy.oom_score_adj", Unit: "1", Instrument: model.Gauge, Description: "oom_score_adj times the factor."}

// observer is the running observation.
type observer struct {
	env    observe.Environment
	factor int64

	mu              sync.Mutex // all below
	known           map[uint32]model.ProcessID
	samples, unread uint64
	drained         []*model.Metrics
}

var (
	_ observe.Observation = (*observer)(nil)
	_ observe.Follower    = (*observer)(nil)
)

func (*observer) DrainInterval() time.Duration { return 100 * time.Millisecond }

func (o *observer) Drain() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drained = nil
	for pid, id := range o.known {
		text, err := os.ReadFile(filepath.Join(o.env.ProcRoot, fmt.Sprint(pid), "oom_score_adj"))
		if err != nil {
			o.unread++
			continue
		}
		value, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return fmt.Errorf("reading oom_score_adj of process %d: %w", pid, err)
		}
		o.samples++
		o.drained = append(o.drained, &model.Metrics{
			Process: &model.Process{ID: id}, Time: time.Now(), Metrics: []model.Metric{{Descriptor: descriptor, Points: []model.Point{{Int: value * o.factor}}}},
		})
	}
	return nil
}

func (o *observer) Report(time.Time) model.Findings {
	o.mu.Lock()
	defer o.mu.Unlock()
	return model.Findings{Metrics: o.drained}
}

func (*observer) Close() error { return nil }

func (o *observer) Look(pid uint32) {
	id, inScope := o.env.Decide(pid)
	o.mu.Lock()
	defer o.mu.Unlock()
	if delete(o.known, pid); inScope {
		o.known[pid] = id
	}
}

func (*observer) LookAll() {}

func (o *observer) Over(id model.ProcessID, now uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now == math.MaxUint32 {
		delete(o.known, id.PID)
	}
}

func (o *observer) Attached() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.known)
}

func (o *observer) Samples() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.samples
}

func (o *observer) Losses() []observe.Loss {
	o.mu.Lock()
	defer o.mu.Unlock()
	return []observe.Loss{{Probe: string(Name), Reason: "unread", Count: o.unread}}
}

func (*observer) Costs() ([]observe.ProgramCost, error) { return nil, nil }
func (*observer) Fill() float64                         { return 0 }
func (*observer) MapBytes() uint64                      { return 0 }
func (*observer) HeldBytes() uint64                     { return 0 }
