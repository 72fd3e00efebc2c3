// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/kinds"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
)

// TaskObservations is how many observations run for tasks at once: those with the same
// plan are one.
const TaskObservations = 8

// takesStacks and followsMappings report what a plan needs.
func takesStacks(p observe.Plan) bool     { return p.Needs().UserStacks }
func followsMappings(p observe.Plan) bool { return p.Needs().Mappings }

// tracksSockets reports whether an observation keeps tables of sockets and connections.
func tracksSockets(p observe.Plan) bool { return kinds.Of(p).TracksSockets }

// samples reports whether an observation keeps samples until its report.
func samples(p observe.Plan) bool { return sampling(p.Kind()) }

// sampling reports whether a kind takes samples: the higher the level, the fewer.
func sampling(kind observe.Kind) bool {
	return kindIs(kind, func(d *observe.Descriptor) bool { return d.Samples })
}

// kindIs reports whether a condition holds for the descriptor of a kind; false if the kind is not listed.
func kindIs(kind observe.Kind, condition func(*observe.Descriptor) bool) bool {
	d := kinds.Named(kind)
	return d != nil && condition(d)
}

// configured are the plans that run from the start.
func (c *Config) configured() []observe.Plan {
	if !c.monitorsRequests() || c.monitorsAreCovered() {
		return c.Observe
	}
	monitors := c.monitors
	if monitors == nil {
		monitors = network.NewMonitorPlan()
	}
	return append(slices.Clip(c.Observe), monitors)
}

// anyConfigured reports whether any configured plan matches.
func (c *Config) anyConfigured(match func(observe.Plan) bool) bool {
	return c.countConfigured(match) > 0
}

func (c *Config) countConfigured(match func(observe.Plan) bool) int {
	n := 0
	for _, p := range c.configured() {
		if match(p) {
			n++
		}
	}
	return n
}

// monitorsRequests reports whether any policy uses requests.
func (c *Config) monitorsRequests() bool {
	return slices.ContainsFunc(c.Policies, func(p Policy) bool { return p.OfRequests() })
}

// monitorsAreCovered reports whether a configured kind reads all requests that policies use.
func (c *Config) monitorsAreCovered() bool { return slices.ContainsFunc(c.Observe, readsAllRequests) }

func readsAllRequests(p observe.Plan) bool {
	source, ok := p.(observe.RequestSource)
	return ok && source.ReadsAllRequests()
}

// isMonitors reports whether a plan is the one that the engine adds for policies.
func isMonitors(p observe.Plan) bool { return kinds.Of(p).Default == nil }
