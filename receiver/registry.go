// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"sync"

	"go.opentelemetry.io/collector/receiver"
)

// registry makes the pipelines of one configuration share one receiver. The
// Collector hands all of them the same *Config.
type registry struct {
	mu        sync.Mutex
	receivers map[*Config]*ebpfReceiver
}

func (r *registry) of(set receiver.Settings, cfg *Config) *ebpfReceiver {
	r.mu.Lock()
	defer r.mu.Unlock()
	shared, ok := r.receivers[cfg]
	if !ok {
		shared = &ebpfReceiver{config: cfg, settings: set}
		shared.forget = func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.receivers, cfg)
		}
		r.receivers[cfg] = shared
	}
	return shared
}
