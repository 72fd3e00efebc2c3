// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
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
	// Runs are what is started then, for Duration each, unless a run says so itself.
	Runs     []task.Run
	Duration time.Duration
}

// Windows are what the policies of an engine have seen when it was shut down. One engine
// can go on with them, of a configuration that need not be the same.
type Windows struct {
	watch *policy.Watch
	line  policy.Timeline
}

// rulesOf are the policies as the watch knows them, where somebody has named the processes in scope or not.
func rulesOf(policies []Policy, named bool) []policy.Policy {
	list := make([]policy.Policy, len(policies))
	for i := range policies {
		list[i] = policies[i].Policy
		list[i].KernelThreads = named || len(policies[i].Targets) > 0
	}
	return list
}

// monitorsRequests tells whether any policy looks at requests.
func (c *Config) monitorsRequests() bool {
	return slices.ContainsFunc(c.Policies, func(p Policy) bool { return p.OfRequests() })
}

// networkHears tells whether the kind network sees all requests that policies look at.
func (c *Config) networkHears() bool {
	n := c.Network
	if n == nil || !n.Requests || len(n.Targets) > 0 || n.Role == ClientRole {
		return false
	}
	for _, protocol := range []string{"http", "http2"} {
		if len(n.Protocols) > 0 && !slices.Contains(n.Protocols, protocol) {
			return false
		}
	}
	return !slices.ContainsFunc(TLSLibraries, func(library string) bool { return !slices.Contains(n.TLS, library) })
}
