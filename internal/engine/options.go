// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// TaskObservations is how many observations run for tasks at once: those with the same
// options are one.
const TaskObservations = 8

// Options say what an observation is to do: *[OnCPU], *[OffCPU], *[Memory] or *[Network].
type Options interface {
	kind() observe.Kind
	targets() []process.Selector
	reportInterval() time.Duration
	// takesStacks says that it takes user stacks, and followsMappings that it asks who maps
	// code.
	takesStacks() bool
	followsMappings() bool
	// untargeted are the same for whomever.
	untargeted() Options
}

// remembersSockets says that an observation holds what it knows of sockets and connections.
func remembersSockets(o Options) bool {
	return o.kind() == observe.Network || o.kind() == observe.Monitors
}

var _, _, _, _ Options = (*OnCPU)(nil), (*OffCPU)(nil), (*Memory)(nil), (*Network)(nil)

func (o *OnCPU) kind() observe.Kind   { return observe.OnCPU }
func (o *OffCPU) kind() observe.Kind  { return observe.OffCPU }
func (o *Memory) kind() observe.Kind  { return observe.Memory }
func (o *Network) kind() observe.Kind { return observe.Network }

func (o *OnCPU) targets() []process.Selector   { return o.Targets }
func (o *OffCPU) targets() []process.Selector  { return o.Targets }
func (o *Memory) targets() []process.Selector  { return o.Targets }
func (o *Network) targets() []process.Selector { return o.Targets }

func (o *OnCPU) reportInterval() time.Duration   { return o.ReportInterval }
func (o *OffCPU) reportInterval() time.Duration  { return o.ReportInterval }
func (o *Memory) reportInterval() time.Duration  { return o.ReportInterval }
func (o *Network) reportInterval() time.Duration { return o.ReportInterval }

func (o *OnCPU) takesStacks() bool   { return o.UserStacks }
func (o *OffCPU) takesStacks() bool  { return o.UserStacks }
func (o *Memory) takesStacks() bool  { return true }
func (o *Network) takesStacks() bool { return false }

// samples says that an observation keeps samples until its report.
func samples(o Options) bool { return sampling(o.kind()) }

// sampling says of which kinds there are samples: the higher the level, the fewer.
func sampling(kind observe.Kind) bool {
	return kind == observe.OnCPU || kind == observe.OffCPU || kind == observe.Memory
}

func (o *OnCPU) followsMappings() bool   { return o.takesStacks() }
func (o *OffCPU) followsMappings() bool  { return o.takesStacks() }
func (o *Memory) followsMappings() bool  { return o.takesStacks() }
func (o *Network) followsMappings() bool { return o.Requests && len(o.TLS) > 0 }

func (o *OnCPU) untargeted() Options   { c := *o; c.Targets = nil; return &c }
func (o *OffCPU) untargeted() Options  { c := *o; c.Targets = nil; return &c }
func (o *Memory) untargeted() Options  { c := *o; c.Targets = nil; return &c }
func (o *Network) untargeted() Options { c := *o; c.Targets = nil; return &c }

// asked are the options of the kinds that the configuration asks for.
func (c *Config) asked() []Options {
	var list []Options
	if c.OnCPU != nil {
		list = append(list, c.OnCPU)
	}
	if c.OffCPU != nil {
		list = append(list, c.OffCPU)
	}
	if c.Memory != nil {
		list = append(list, c.Memory)
	}
	if c.Network != nil {
		list = append(list, c.Network)
	}
	if c.monitorsRequests() && !c.networkHears() {
		list = append(list, &monitors{})
	}
	return list
}

// anyAsked tells whether the options of a kind that is asked for are such.
func (c *Config) anyAsked(such func(Options) bool) bool { return c.numberAsked(such) > 0 }

func (c *Config) numberAsked(such func(Options) bool) int {
	n := 0
	for _, o := range c.asked() {
		if such(o) {
			n++
		}
	}
	return n
}
