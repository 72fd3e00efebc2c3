// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// handoverTimeout is how soon the next receiver must start to continue with the windows of the
// policies.
const handoverTimeout = time.Minute

// handovers are global: a Collector that reloads its configuration makes everything anew, factories
// included.
var handovers = handover{left: map[component.ID]*handedOver{}}

// handover passes the windows of the policies, and the runs that these started and that have not
// ended, from a receiver that has stopped to the next one with the same id.
type handover struct {
	mu   sync.Mutex
	left map[component.ID]*handedOver
}

// handedOver is what one receiver has left, until it is forgotten.
type handedOver struct {
	windows    *engine.Windows // nil where there are no policies
	unfinished []task.Request
	warned     *warn.Memory
	forget     *time.Timer
}

// leave keeps windows, unfinished runs of their policies, and the warnings that were logged, for a while.
func (s *handover) leave(id component.ID, windows *engine.Windows, unfinished []task.Request, warned *warn.Memory) {
	if windows == nil {
		unfinished = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(id)
	of := &handedOver{windows: windows, unfinished: unfinished, warned: warned}
	of.forget = time.AfterFunc(handoverTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.left[id] == of {
			delete(s.left, id)
		}
	})
	s.left[id] = of
}

// take returns the windows, nil if there are none, the unfinished runs, and which warnings were logged.
func (s *handover) take(id component.ID) (*engine.Windows, []task.Request, *warn.Memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.drop(id); of != nil {
		return of.windows, of.unfinished, of.warned
	}
	return nil, nil, nil
}

func (s *handover) drop(id component.ID) *handedOver {
	of := s.left[id]
	if of != nil {
		of.forget.Stop()
		delete(s.left, id)
	}
	return of
}
