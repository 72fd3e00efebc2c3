// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// SelectorConfig selects processes: all fields that are set must match. Patterns
// are RE2, unanchored, except Exe, a glob on the full path.
type SelectorConfig struct {
	PID         uint32            `mapstructure:"pid"`
	Comm        string            `mapstructure:"comm"`
	Exe         string            `mapstructure:"exe"`
	Cmdline     string            `mapstructure:"cmdline"`
	Port        uint16            `mapstructure:"port"`
	ContainerID string            `mapstructure:"container_id"`
	PodUID      string            `mapstructure:"pod_uid"`
	Service     string            `mapstructure:"service"`
	Set         map[string]string `mapstructure:"set"`
}

func (c *SelectorConfig) selector() process.Selector {
	return process.Selector{
		PID:         c.PID,
		Comm:        c.Comm,
		Exe:         c.Exe,
		Cmdline:     c.Cmdline,
		Port:        c.Port,
		ContainerID: c.ContainerID,
		PodUID:      c.PodUID,
		Service:     c.Service,
		Set:         c.Set,
	}
}

func selectors(configs []SelectorConfig) []process.Selector {
	var list []process.Selector
	for i := range configs {
		list = append(list, configs[i].selector())
	}
	return list
}

// validateSelectors prefixes what is wrong with a selector, or with a field of it, by
// its path.
func validateSelectors(path string, configs []SelectorConfig) []error {
	var errs []error
	for i := range configs {
		_, err := configs[i].selector().Compile()
		for _, one := range split(err) {
			delimiter := confmap.KeyDelimiter
			if errors.Is(one, process.ErrNoCondition) {
				delimiter = ": " // what follows is no field
			}
			errs = append(errs, fmt.Errorf("%s[%d]%s%w", path, i, delimiter, one))
		}
	}
	return errs
}

// withoutSet refuses attributes where nothing would come of them.
func withoutSet(path string, configs []SelectorConfig) []error {
	var errs []error
	for i := range configs {
		if len(configs[i].Set) > 0 {
			errs = append(errs, fmt.Errorf("%s[%d]::set: only selectors of targets::include set attributes", path, i))
		}
	}
	return errs
}

// split undoes errors.Join.
func split(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}
