// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

// signals says which kinds of pipelines take what the receiver makes.
type signals struct{ profiles, metrics, logs, traces bool }

// unheard says of each kind that is listed and whose results no pipeline takes
// which pipeline it needs.
func (c *ObserveConfig) unheard(taken signals) []string {
	var needs []string
	network := c.Network.Get()
	for _, k := range []struct {
		kind           string
		listed, taken  bool
		neededPipeline string
	}{
		{"on_cpu", c.OnCPU.HasValue(), taken.profiles, "profiles"},
		{"off_cpu", c.OffCPU.HasValue(), taken.profiles, "profiles"},
		{"memory", c.Memory.HasValue(), taken.profiles, "profiles"},
		{"network", network != nil, network != nil && network.heard(taken), "metrics, logs or, with requests::spans, traces"},
	} {
		if k.listed && !k.taken {
			needs = append(needs, k.kind+" needs a "+k.neededPipeline+" pipeline")
		}
	}
	return needs
}

// unheardRuns are those of tasks whose results no pipeline takes.
func unheardRuns(tasks []TaskConfig, taken signals) []string {
	var list []string
	for i := range tasks {
		list = append(list, unheardOf(fmt.Sprintf("tasks[%d]", i), tasks[i].Run, taken)...)
	}
	return list
}

// unheardPolicies are those of policies.
func unheardPolicies(policies []PolicyConfig, taken signals) []string {
	var list []string
	for i := range policies {
		list = append(list, unheardOf(fmt.Sprintf("policies[%d]", i), policies[i].Run, taken)...)
	}
	return list
}

func unheardOf(path string, runs []RunConfig, taken signals) []string {
	var list []string
	for j := range runs {
		if len(taskRuns(runs[j:j+1], taken)) == 0 {
			list = append(list, fmt.Sprintf("%s::run[%d] (%s)", path, j, strings.Join(runs[j].kinds(), ", ")))
		}
	}
	return list
}

// tellIdle says what was asked for and does not run, or not whole.
func (r *ebpfReceiver) tellIdle(config engine.Config, taken signals) {
	unheard := r.config.Observe.unheard(taken)
	switch {
	case config.ObservesAtOnce():
		for _, need := range unheard {
			r.settings.Logger.Info("A kind of observation does not run, because no pipeline takes what it makes: " + need)
		}
	case len(unheard) > 0:
		r.settings.Logger.Warn("The receiver observes nothing, because no pipeline takes what the kinds listed under observe make: " + strings.Join(unheard, ", "))
	case config.OnDemand:
		r.settings.Logger.Info("The receiver observes nothing until a task asks for it")
	default:
		r.settings.Logger.Warn("The receiver observes nothing: no kind is listed under observe")
	}
	if runs := append(unheardRuns(r.config.Tasks, taken), unheardPolicies(r.config.Policies, taken)...); len(runs) > 0 {
		r.settings.Logger.Warn("What tasks and policies run does not, because no pipeline takes what it makes: " + strings.Join(runs, ", "))
	}
	if taken.traces && (config.Network == nil || !config.Network.Journal.Spans) {
		r.settings.Logger.Warn("The traces pipeline gets nothing: spans are made where observe::network::requests::spans is true alone")
	}
	if config.Network != nil && config.Network.Requests {
		r.settings.Logger.Info("network: of requests this version tells those of HTTP and gRPC, as metrics, logs and spans, and of DNS, as metrics: " +
			"other protocols have no effect yet")
	}
	if config.Network == nil {
		return
	}
	if ignored := r.config.Observe.Network.Get().withoutEffect("observe::network", taken); len(ignored) > 0 {
		r.settings.Logger.Warn("What is configured of requests has no effect: " + strings.Join(ignored, ", "))
	}
}
