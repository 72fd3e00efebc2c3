// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// succeedWithin is how soon the next receiver must start to go on with what policies have
// seen.
const succeedWithin = time.Minute

// successions are of the whole program: a Collector that reads its configuration again
// makes everything anew, factories included.
var successions = succession{left: map[component.ID]*legacy{}}

// succession hands over what policies have seen, and what they have started and did not end, from a
// receiver that has stopped to the one of the same name that starts next.
type succession struct {
	mu   sync.Mutex
	left map[component.ID]*legacy
}

// legacy is what one has left, until it is forgotten.
type legacy struct {
	windows    *engine.Windows
	unfinished []task.Request
	forget     *time.Timer
}

// leave keeps windows, and what is unfinished of their policies, for a while, unless there are none.
func (s *succession) leave(id component.ID, windows *engine.Windows, unfinished []task.Request) {
	if windows == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(id)
	of := &legacy{windows: windows, unfinished: unfinished}
	of.forget = time.AfterFunc(succeedWithin, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.left[id] == of {
			delete(s.left, id)
		}
	})
	s.left[id] = of
}

// take hands windows over, nil where there are none, and what is unfinished.
func (s *succession) take(id component.ID) (*engine.Windows, []task.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.drop(id); of != nil {
		return of.windows, of.unfinished
	}
	return nil, nil
}

func (s *succession) drop(id component.ID) *legacy {
	of := s.left[id]
	if of != nil {
		of.forget.Stop()
		delete(s.left, id)
	}
	return of
}
