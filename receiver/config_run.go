// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// RunConfig is one observation that a task or a policy runs: the name of a kind, such as
// on_cpu, or a map from that name to the kind's fields, and duration.
type RunConfig struct {
	OnCPU   configoptional.Optional[KindRun[OnCPUConfig]]   `mapstructure:"on_cpu"`
	OffCPU  configoptional.Optional[KindRun[OffCPUConfig]]  `mapstructure:"off_cpu"`
	Memory  configoptional.Optional[KindRun[MemoryConfig]]  `mapstructure:"memory"`
	Network configoptional.Optional[KindRun[NetworkConfig]] `mapstructure:"network"`
}

// KindRun is a kind's fields in a run.
type KindRun[C any] struct {
	Kind C `mapstructure:",squash"`
	// Duration is how long it runs; 0: as long as the task or the policy says.
	Duration time.Duration `mapstructure:"duration"`
}

const (
	defaultRunDuration = 10 * time.Minute
	minRunDuration     = time.Second
	maxRunDuration     = 24 * time.Hour
)

var _ confmap.Unmarshaler = (*RunConfig)(nil)

// runKinds are the kinds that can be run.
var runKinds = slices.Sorted(maps.Keys(keysOf(reflect.TypeFor[RunConfig]())))

func defaultRun[C any](kind C) configoptional.Optional[KindRun[C]] {
	return configoptional.Default(KindRun[C]{Kind: kind})
}

// Unmarshal reads the spelling with fields.
func (c *RunConfig) Unmarshal(conf *confmap.Conf) error {
	*c = RunConfig{
		OnCPU: defaultRun(defaultOnCPU()), OffCPU: defaultRun(defaultOffCPU()),
		Memory: defaultRun(defaultMemory()), Network: defaultRun(defaultNetwork()),
	}
	return conf.Unmarshal(c)
}

// UnmarshalText reads the spelling of a kind alone.
func (c *RunConfig) UnmarshalText(kind []byte) error {
	return c.Unmarshal(confmap.NewFromStringMap(map[string]any{string(kind): map[string]any{}}))
}

// wrongRun says what is wrong with a run that is not a map.
func wrongRun(path string, value any) error {
	name, ok := value.(string)
	switch {
	case !ok:
		return fmt.Errorf("%s: %s is not allowed: it must be the name of a kind, such as on_cpu, or a map from that name to its fields", path, shown(value))
	case slices.Contains(runKinds, name):
		return nil
	case slices.Contains(laterKinds, name):
		return fmt.Errorf("%s: %q: %s", path, name, later[placeOfKinds+name])
	}
	return fmt.Errorf("%s: %q is not allowed: kinds of observation are %s", path, name, strings.Join(runKinds, ", "))
}

// validateRuns checks the list `run` of a task or a policy.
func validateRuns(path string, runs []RunConfig, limits *LimitsConfig) []error {
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
	for _, k := range []struct {
		name   string
		listed bool
	}{
		{"on_cpu", c.OnCPU.HasValue()},
		{"off_cpu", c.OffCPU.HasValue()},
		{"memory", c.Memory.HasValue()},
		{"network", c.Network.HasValue()},
	} {
		if k.listed {
			names = append(names, k.name)
		}
	}
	return names
}

func (c *RunConfig) validate(path string, limits *LimitsConfig) []error {
	var errs []error
	if run := c.OnCPU.Get(); run != nil {
		errs = append(errs, run.Kind.validate(path+"::on_cpu")...)
		errs = append(errs, validateRun(path+"::on_cpu", run.Duration, &run.Kind.KindConfig))
	}
	if run := c.OffCPU.Get(); run != nil {
		errs = append(errs, run.Kind.validate(path+"::off_cpu")...)
		errs = append(errs, validateRun(path+"::off_cpu", run.Duration, &run.Kind.KindConfig))
	}
	if run := c.Memory.Get(); run != nil {
		errs = append(errs, run.Kind.validate(path+"::memory")...)
		errs = append(errs, validateRun(path+"::memory", run.Duration, &run.Kind.KindConfig))
	}
	if run := c.Network.Get(); run != nil {
		errs = append(errs, run.Kind.validate(path+"::network", limits.MemoryMiB)...)
		errs = append(errs, validateRun(path+"::network", run.Duration, &run.Kind.KindConfig))
	}
	return errs
}

// validateRun checks what all kinds have in a run.
func validateRun(path string, duration time.Duration, kind *KindConfig) error {
	var errs []error
	if duration != 0 {
		errs = append(errs, between(path+"::duration", duration, minRunDuration, maxRunDuration))
	}
	if len(kind.Targets) > 0 {
		errs = append(errs, fmt.Errorf("%s::targets: a run has none: whom it observes, the task or the policy says", path))
	}
	return errors.Join(errs...)
}

// taskRuns says what tasks must do. Kinds whose results no pipeline takes are left out.
func taskRuns(runs []RunConfig, taken signals) []task.Run {
	var list []task.Run
	for i := range runs {
		switch c := &runs[i]; {
		case c.OnCPU.HasValue() && taken.profiles:
			list = append(list, task.Run{Kind: "on_cpu", Options: c.OnCPU.Get().Kind.engine(), Duration: c.OnCPU.Get().Duration})
		case c.OffCPU.HasValue() && taken.profiles:
			list = append(list, task.Run{Kind: "off_cpu", Options: c.OffCPU.Get().Kind.engine(), Duration: c.OffCPU.Get().Duration})
		case c.Memory.HasValue() && taken.profiles:
			list = append(list, task.Run{Kind: "memory", Options: c.Memory.Get().Kind.engine(), Duration: c.Memory.Get().Duration})
		case c.Network.HasValue() && c.Network.Get().Kind.heard(taken):
			list = append(list, task.Run{Kind: "network", Options: c.Network.Get().Kind.engine(taken), Duration: c.Network.Get().Duration})
		}
	}
	return list
}
