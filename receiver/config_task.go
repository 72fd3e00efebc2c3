// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"time"

	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/task"
)

// TaskConfig is what starts at a given time for a given duration.
type TaskConfig struct {
	// Name is unique among the tasks.
	Name string `mapstructure:"name"`
	// Run says what to observe.
	Run []RunConfig `mapstructure:"run"`
	// Targets narrow the receiver's own; empty does not.
	Targets []SelectorConfig `mapstructure:"targets"`
	// Start is when it begins; zero: when the receiver does.
	Start time.Time `mapstructure:"start"`
	// Duration is how long each run lasts that does not say so itself.
	Duration time.Duration `mapstructure:"duration"`
}

var _ confmap.Unmarshaler = (*TaskConfig)(nil)

// Unmarshal reads a task over the defaults.
func (c *TaskConfig) Unmarshal(conf *confmap.Conf) error {
	*c = TaskConfig{Duration: defaultRunDuration}
	return conf.Unmarshal(c)
}

// validateTasks checks the list `tasks`.
func validateTasks(path string, tasks []TaskConfig, limits observe.Limits) []error {
	var errs []error
	named := map[string]int{}
	for i := range tasks {
		c, at := &tasks[i], fmt.Sprintf("%s[%d]", path, i)
		errs = append(errs, validateName(at+"::name", c.Name, named, i, path))
		errs = append(errs, validateRuns(at+"::run", c.Run, limits)...)
		errs = append(errs, setting.Selectors(at+"::targets", c.Targets)...)
		errs = append(errs, setting.WithoutSet(at+"::targets", c.Targets)...)
		errs = append(errs, setting.Between(at+"::duration", c.Duration, minRunDuration, maxRunDuration))
	}
	return errs
}

// validateName checks that an element of a list has a name of its own, and notes it in named.
func validateName(path, name string, named map[string]int, i int, list string) error {
	if name == "" {
		return fmt.Errorf("%s: it has no value: the task's logs and profiles need a name", path)
	}
	if first, twice := named[name]; twice {
		return fmt.Errorf("%s: %q is not allowed: it is the name of %s[%d] already", path, name, list, first)
	}
	named[name] = i
	return nil
}

// byConfig is who asks for the tasks of the configuration.
const byConfig = "config"

// requests are what the configuration asks for at the start, as of now. What was over by then
// is left out, and of what has begun the rest is asked for.
func taskRequests(tasks []TaskConfig, taken observe.Signals, now time.Time) (requests []task.Request, over []string) {
	for i := range tasks {
		c := &tasks[i]
		request := task.Request{
			Name: c.Name, By: byConfig, Runs: taskRuns(c.Run, taken), Targets: c.Targets,
			Start: c.Start, Duration: c.Duration,
		}
		if len(request.Runs) == 0 {
			continue // no pipeline takes what they make
		}
		if !c.Start.IsZero() && c.Start.Before(now) {
			request = rest(request, now.Sub(c.Start))
			if len(request.Runs) == 0 {
				over = append(over, c.Name)
				continue
			}
		}
		requests = append(requests, request)
	}
	return requests, over
}

// rest is what is left of a request after some of its time.
func rest(r task.Request, gone time.Duration) task.Request {
	var left []task.Run
	for _, run := range r.Runs {
		if run.Duration == 0 {
			run.Duration = r.Duration
		}
		if run.Duration -= gone; run.Duration > 0 {
			left = append(left, run)
		}
	}
	r.Runs = left
	return r
}
