// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// unheard returns for each kind that is listed and whose results no pipeline takes
// which pipeline it needs.
func (c *ObserveConfig) unheard(taken observe.Signals) []string {
	var needs []string
	c.each(func(kind *observe.Descriptor, options observe.Options) {
		if options.Plan(taken) == nil {
			needs = append(needs, string(kind.Name)+" needs a "+kind.Pipelines+" pipeline")
		}
	})
	return needs
}

// unheardRuns are those of tasks whose results no pipeline takes.
func unheardRuns(tasks []TaskConfig, taken observe.Signals) []string {
	var list []string
	for i := range tasks {
		list = append(list, unheardOf(fmt.Sprintf("tasks[%d]", i), tasks[i].Run, taken)...)
	}
	return list
}

// unheardPolicies are those of policies.
func unheardPolicies(policies []PolicyConfig, taken observe.Signals) []string {
	var list []string
	for i := range policies {
		list = append(list, unheardOf(fmt.Sprintf("policies[%d]", i), policies[i].Run, taken)...)
	}
	return list
}

func unheardOf(path string, runs []RunConfig, taken observe.Signals) []string {
	var list []string
	for j := range runs {
		if len(taskRuns(runs[j:j+1], taken)) == 0 {
			list = append(list, fmt.Sprintf("%s::run[%d] (%s)", path, j, strings.Join(runs[j].kinds(), ", ")))
		}
	}
	return list
}

// logIdle logs what is configured and does not run, or only in part.
func (r *ebpfReceiver) logIdle(config engine.Config, taken observe.Signals) {
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
	if taken.Traces && !slices.ContainsFunc(config.Observe, func(p observe.Plan) bool { return p.Needs().Spans }) {
		r.settings.Logger.Warn("The traces pipeline gets nothing: spans are made where observe::network::requests::spans is true alone")
	}
	r.config.Observe.each(func(kind *observe.Descriptor, options observe.Options) {
		noter, ok := options.(observe.Noter)
		if !ok {
			return
		}
		infos, warnings := noter.Notes(placeOfKinds+string(kind.Name), taken)
		for _, info := range infos {
			r.settings.Logger.Info(info)
		}
		for _, warning := range warnings {
			r.settings.Logger.Warn(warning)
		}
	})
}
