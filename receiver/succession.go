// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

// succeedWithin is how soon the next receiver must start to go on with what policies have
// seen.
const succeedWithin = time.Minute

// successions are of the whole program: a Collector that reads its configuration again
// makes everything anew, factories included.
var successions = succession{left: map[component.ID]*legacy{}}

// succession hands over what policies have seen from a receiver that has stopped to the one
// of the same name that starts next.
type succession struct {
	mu   sync.Mutex
	left map[component.ID]*legacy
}

// legacy is what one has left, until it is forgotten.
type legacy struct {
	windows *engine.Windows
	forget  *time.Timer
}

// leave keeps windows for a while, unless there are none.
func (s *succession) leave(id component.ID, windows *engine.Windows) {
	if windows == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(id)
	of := &legacy{windows: windows}
	of.forget = time.AfterFunc(succeedWithin, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.left[id] == of {
			delete(s.left, id)
		}
	})
	s.left[id] = of
}

// take hands windows over, nil where there are none.
func (s *succession) take(id component.ID) *engine.Windows {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(id)
}

func (s *succession) drop(id component.ID) *engine.Windows {
	of := s.left[id]
	if of == nil {
		return nil
	}
	of.forget.Stop()
	delete(s.left, id)
	return of.windows
}
