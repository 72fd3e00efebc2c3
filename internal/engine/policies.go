// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// Policy is what starts by itself when one of its rules holds.
type Policy struct {
	policy.Policy
	// Targets narrows the engine's own; empty does not.
	Targets []process.Selector
	// Runs are started then, for Duration each unless a run has its own.
	Runs     []task.Run
	Duration time.Duration
}

// Windows are what the policies of an engine have seen when it was shut down. One engine
// can go on with them, of a configuration that need not be the same.
type Windows struct {
	watch *policy.Watch
	line  policy.Timeline
}

// rulesOf are the policies as the watch knows them. named: the configuration names the processes in scope.
func rulesOf(policies []Policy, named bool) []policy.Policy {
	list := make([]policy.Policy, len(policies))
	for i := range policies {
		list[i] = policies[i].Policy
		list[i].KernelThreads = named || len(policies[i].Targets) > 0
	}
	return list
}
