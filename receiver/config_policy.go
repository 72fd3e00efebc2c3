// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/monitor"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/policy"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// PolicyConfig is what starts by itself when a threshold is reached.
type PolicyConfig struct {
	// Name is unique among the policies.
	Name string `mapstructure:"name"`
	// Targets narrow the receiver's own; empty does not.
	Targets []SelectorConfig `mapstructure:"targets"`
	// When are the rules; any that holds triggers.
	When []RuleConfig `mapstructure:"when"`
	// Run says what to observe then.
	Run []RunConfig `mapstructure:"run"`
	// Duration is how long each run lasts that does not say so itself.
	Duration time.Duration `mapstructure:"duration"`
	// Silence is for how long after the start of a run there is no second one of this
	// policy for the same process.
	Silence time.Duration `mapstructure:"silence"`
}

// RuleConfig holds while count of the last period's seconds have reached the threshold.
type RuleConfig struct {
	// Monitor is the name of one of [monitor.All].
	Monitor string `mapstructure:"monitor"`
	// Threshold is in the monitor's unit; nil where none is said, for 0 is one.
	Threshold *float64 `mapstructure:"threshold"`
	// Period is of whole seconds.
	Period time.Duration `mapstructure:"period"`
	Count  int           `mapstructure:"count"`
	// URIList are paths, without query, to which monitors of requests apply
	// individually; URIRegex matches paths to which they apply together.
	URIList  []string `mapstructure:"uri_list"`
	URIRegex string   `mapstructure:"uri_regex"`
}

const (
	defaultSilence = 20 * time.Minute
	maxSilence     = 7 * 24 * time.Hour
	maxRulePeriod  = time.Hour
	maxPolicies    = 256
	maxRules       = 64
	maxURIs        = 64
)

var _ confmap.Unmarshaler = (*PolicyConfig)(nil)

// Unmarshal reads a policy over the defaults.
func (c *PolicyConfig) Unmarshal(conf *confmap.Conf) error {
	*c = PolicyConfig{Duration: defaultRunDuration, Silence: defaultSilence}
	return conf.Unmarshal(c)
}

// validatePolicies checks the list `policies`.
func validatePolicies(path string, policies []PolicyConfig, limits observe.Limits) []error {
	errs := []error{setting.AtMost(path, len(policies), maxPolicies)}
	named := map[string]int{}
	for i := range policies {
		c, at := &policies[i], fmt.Sprintf("%s[%d]", path, i)
		errs = append(errs, validateName(at+"::name", c.Name, named, i, path))
		errs = append(errs, setting.Selectors(at+"::targets", c.Targets)...)
		errs = append(errs, setting.WithoutSet(at+"::targets", c.Targets)...)
		if len(c.When) == 0 {
			errs = append(errs, fmt.Errorf("%s::when: it is empty: say at least one threshold, such as {monitor: process_cpu, threshold: 80, period: 10s, count: 5}", at))
		}
		errs = append(errs, setting.AtMost(at+"::when", len(c.When), maxRules))
		for j := range c.When {
			errs = append(errs, c.When[j].validate(fmt.Sprintf("%s::when[%d]", at, j))...)
		}
		errs = append(errs, validateRuns(at+"::run", c.Run, limits)...)
		errs = append(errs, setting.Between(at+"::duration", c.Duration, minRunDuration, maxRunDuration),
			setting.Between(at+"::silence", c.Silence, time.Second, maxSilence))
	}
	return errs
}

func (c *RuleConfig) validate(path string) []error {
	errs := []error{setting.OneOf(path+"::monitor", c.Monitor, monitor.Names(nil))}
	if of := monitor.Named(c.Monitor); of != nil {
		errs = append(errs, c.validateThreshold(path+"::threshold", of))
		errs = append(errs, c.validateURIs(path, of)...)
	}
	if err := setting.Between(path+"::period", c.Period, time.Second, maxRulePeriod); err != nil {
		return append(errs, err)
	}
	if c.Period%time.Second != 0 {
		return append(errs, fmt.Errorf("%s::period: %v is not allowed: it must be whole seconds, each of which has one value", path, c.Period))
	}
	if seconds := int(c.Period / time.Second); c.Count < 1 || c.Count > seconds {
		errs = append(errs, fmt.Errorf("%s::count: %d is not allowed: it must lie between 1 and %d, the seconds of period", path, c.Count, seconds))
	}
	return errs
}

func (c *RuleConfig) validateThreshold(path string, of *monitor.Descriptor) error {
	if c.Threshold == nil {
		return fmt.Errorf("%s: it is missing: it must be a number from 0 on", path)
	}
	if err := of.CheckThreshold(*c.Threshold); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (c *RuleConfig) validateURIs(path string, of *monitor.Descriptor) []error {
	var errs []error
	for _, key := range []struct {
		name  string
		given bool
	}{{"uri_list", len(c.URIList) > 0}, {"uri_regex", c.URIRegex != ""}} {
		if key.given && !of.OfRequests() {
			errs = append(errs, fmt.Errorf("%s::%s: not allowed where monitor is %s: it narrows %s", path, key.name, of.Name, strings.Join(monitor.Names((*monitor.Descriptor).OfRequests), " and ")))
		}
	}
	if len(c.URIList) > 0 && c.URIRegex != "" {
		errs = append(errs, fmt.Errorf("%s::uri_regex: not allowed together with uri_list: write a rule for each", path))
	}
	errs = append(errs, setting.AtMost(path+"::uri_list", len(c.URIList), maxURIs))
	for i, uri := range c.URIList {
		at := fmt.Sprintf("%s::uri_list[%d]", path, i)
		if !strings.HasPrefix(uri, "/") || strings.ContainsAny(uri, "?#") {
			errs = append(errs, fmt.Errorf("%s: %q is not allowed: it must be a path as /pay, without a query", at, uri))
		} else if first := slices.Index(c.URIList, uri); first < i {
			errs = append(errs, fmt.Errorf("%s: %q is not allowed: it is uri_list[%d] already", at, uri, first))
		}
	}
	if _, err := regexp.Compile(c.URIRegex); err != nil {
		errs = append(errs, fmt.Errorf("%s::uri_regex: compiling the RE2 pattern: %w", path, err))
	}
	return errs
}

// engine is what the engine does. Runs whose results no pipeline takes are left out.
func (c *PolicyConfig) engine(taken observe.Signals) engine.Policy {
	p := engine.Policy{
		Policy:  policy.Policy{Name: c.Name, Silence: c.Silence},
		Targets: c.Targets, Runs: taskRuns(c.Run, taken), Duration: c.Duration,
	}
	for i := range c.When {
		p.When = append(p.When, c.When[i].rule())
	}
	return p
}

func (c *RuleConfig) rule() policy.Rule {
	r := policy.Rule{
		Monitor: monitor.Named(c.Monitor), Threshold: *c.Threshold,
		Period: int(c.Period / time.Second), Count: c.Count, Paths: c.URIList,
	}
	if c.URIRegex != "" {
		r.Pattern = regexp.MustCompile(c.URIRegex)
	}
	return r
}
