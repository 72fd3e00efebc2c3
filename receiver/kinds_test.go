// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"reflect"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/kinds"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
)

// onCPUOf and networkOf are the options of kinds that a configuration lists.
func onCPUOf(c *Config) *oncpu.Options     { return c.Observe.listed[oncpu.Name].(*oncpu.Options) }
func networkOf(c *Config) *network.Options { return c.Observe.listed[network.Name].(*network.Options) }

// runOnCPU are the options of on_cpu in a run.
func runOnCPU(run *RunConfig) *oncpu.Options { return run.listed[oncpu.Name].options.(*oncpu.Options) }

// networkPlan is what the engine observes of the network, nil if nothing.
func networkPlan(c engine.Config) *network.Plan {
	for _, plan := range c.Observe {
		if found, ok := plan.(*network.Plan); ok {
			return found
		}
	}
	return nil
}

// listing is a configuration of kinds, by the types of their options.
func listing(options ...observe.Options) ObserveConfig {
	var c ObserveConfig
	for _, o := range options {
		for _, kind := range kinds.Configurable() {
			if reflect.TypeOf(kind.Default()) == reflect.TypeOf(o) {
				c.list(kind.Name, o)
			}
		}
	}
	return c
}
