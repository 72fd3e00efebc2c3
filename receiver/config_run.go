// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// RunConfig is one observation that a task or a policy runs: the name of a kind, such as
// on_cpu, or a map from that name to the kind's fields, and duration. A valid one names one kind.
type RunConfig struct {
	perKind[kindRun]
}

// kindRun is a kind with its options in a run.
type kindRun struct {
	options observe.Options
	// duration is how long it runs; 0: as long as the task or the policy says.
	duration time.Duration
}

// runDuration is the field that each kind has in a run in addition to its own.
type runDuration struct {
	Duration time.Duration `mapstructure:"duration"`
}

const (
	defaultRunDuration = 10 * time.Minute
	minRunDuration     = time.Second
	maxRunDuration     = 24 * time.Hour
)

var _ confmap.Unmarshaler = (*RunConfig)(nil)

// runKinds are the kinds that can be run.
var runKinds = slices.Sorted(maps.Keys(keysOf(runType)))

// Unmarshal reads the spelling with fields.
func (c *RunConfig) Unmarshal(conf *confmap.Conf) error { return c.unmarshal(conf, readRun) }

func readRun(kind *observe.Descriptor, fields *confmap.Conf) (kindRun, error) {
	var own runDuration
	if err := fields.Unmarshal(&own, confmap.WithIgnoreUnused()); err != nil {
		return kindRun{}, err
	}
	fields.Delete("duration")
	options, err := readOptions(kind, fields)
	return kindRun{options, own.Duration}, err
}

// UnmarshalText reads the spelling of a kind alone.
func (c *RunConfig) UnmarshalText(kind []byte) error {
	return c.Unmarshal(confmap.NewFromStringMap(map[string]any{string(kind): map[string]any{}}))
}

// wrongRun says what is wrong with a run that is not a map.
func wrongRun(path string, value any) error {
	name, ok := value.(string)
	const wanted = "the name of a kind, such as on_cpu, or a map from that name to its fields"
	switch {
	case value == nil:
		return noValue(path, wanted)
	case !ok:
		return fmt.Errorf("%s: %s is not allowed: it must be %s", path, shown(value), wanted)
	case slices.Contains(runKinds, name):
		return nil
	case slices.Contains(laterKinds, name):
		return fmt.Errorf("%s: %q: %s", path, name, later[placeOfKinds+name])
	}
	return fmt.Errorf("%s: %q is not allowed: kinds of observation are %s", path, name, strings.Join(runKinds, ", "))
}

// validateRuns checks the list `run` of a task or a policy.
func validateRuns(path string, runs []RunConfig, limits observe.Limits) []error {
	if len(runs) == 0 {
		return []error{fmt.Errorf("%s: it is empty: say what to run, such as [on_cpu]; there are %s", path, strings.Join(runKinds, ", "))}
	}
	var errs []error
	listed := map[string]int{}
	for i := range runs {
		at := fmt.Sprintf("%s[%d]", path, i)
		kinds := runs[i].kinds()
		if len(kinds) != 1 {
			errs = append(errs, fmt.Errorf("%s: it must name one kind of observation, and names %d: write a list element for each", at, len(kinds)))
		}
		for _, kind := range kinds {
			if first, twice := listed[kind]; twice {
				errs = append(errs, fmt.Errorf("%s::%s: it is in %s[%d] already: each kind is run once", at, kind, path, first))
			}
			listed[kind] = i
		}
		errs = append(errs, runs[i].validate(at, limits)...)
	}
	return errs
}

// kinds are those that a run names: one, where it is valid.
func (c *RunConfig) kinds() []string {
	var names []string
	c.each(func(kind *observe.Descriptor, _ kindRun) { names = append(names, string(kind.Name)) })
	return names
}

func (c *RunConfig) validate(path string, limits observe.Limits) []error {
	var errs []error
	c.each(func(kind *observe.Descriptor, run kindRun) {
		at := path + "::" + string(kind.Name)
		errs = append(errs, run.options.Validate(at, limits)...)
		errs = append(errs, run.validate(at))
	})
	return errs
}

// validate checks what all kinds have in a run.
func (r kindRun) validate(path string) error {
	var errs []error
	if r.duration != 0 {
		errs = append(errs, setting.Between(path+"::duration", r.duration, minRunDuration, maxRunDuration))
	}
	if len(r.options.Shared().Targets) > 0 {
		errs = append(errs, fmt.Errorf("%s::targets: not allowed in a run: set the targets of the task or policy", path))
	}
	return errors.Join(errs...)
}

// taskRuns returns what tasks run. Kinds whose results no pipeline takes are left out.
func taskRuns(runs []RunConfig, taken observe.Signals) []task.Run {
	var list []task.Run
	for i := range runs {
		runs[i].each(func(kind *observe.Descriptor, run kindRun) {
			if plan := run.options.Plan(taken); plan != nil {
				list = append(list, task.Run{Kind: string(kind.Name), Options: plan, Duration: run.duration})
			}
		})
	}
	return list
}
