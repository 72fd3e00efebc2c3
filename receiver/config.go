// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"reflect"
	"runtime"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// Config is the configuration of the receiver, see docs/reference/configuration.md.
type Config struct {
	// RootPath is where the host's file system is mounted, an absolute path.
	RootPath string `mapstructure:"root_path"`
	// Targets says which processes are observed.
	Targets TargetsConfig `mapstructure:"targets"`
	// Observe lists what runs from start to shutdown.
	Observe ObserveConfig `mapstructure:"observe"`
	// Metrics turns single metrics off, and says what their resources are.
	Metrics MetricsConfig `mapstructure:"metrics"`
	// Events turns single events off.
	Events metadata.EventsConfig `mapstructure:"events"`
	// Policies are what starts by itself when a threshold is reached.
	Policies []PolicyConfig `mapstructure:"policies"`
	// Tasks are what starts at a given time for a given duration.
	Tasks []TaskConfig `mapstructure:"tasks"`
	// Storage is the extension that keeps the history of tasks over a restart; nil: none does.
	Storage *component.ID `mapstructure:"storage"`
	// Symbols configures where names and lines come from, in addition to the binaries
	// themselves.
	Symbols SymbolsConfig `mapstructure:"symbols"`
	// Limits is what the receiver may cost the host.
	Limits LimitsConfig `mapstructure:"limits"`
}

// TargetsConfig says which processes are observed: those that any include and no
// exclude matches.
type TargetsConfig struct {
	// Include is empty for every process of the host but this Collector.
	Include []SelectorConfig `mapstructure:"include"`
	Exclude []SelectorConfig `mapstructure:"exclude"`
	// ScanInterval is the time between two full scans of /proc.
	ScanInterval time.Duration `mapstructure:"scan_interval"`
}

// LimitsConfig bounds the receiver's own cost.
type LimitsConfig struct {
	// MemoryMiB bounds what the receiver holds, kernel maps included.
	MemoryMiB int `mapstructure:"memory_mib"`
	// CPUPercent bounds the CPU time of the receiver's own work and of its BPF
	// programs, in per cent of one core.
	CPUPercent float64 `mapstructure:"cpu_percent"`
	// ConcurrentTasks is how many tasks run at once; others wait.
	ConcurrentTasks int `mapstructure:"concurrent_tasks"`
}

const (
	minScanInterval = time.Second
	maxScanInterval = time.Hour
	minMemoryMiB    = 32
	maxMemoryMiB    = 64 << 10
	// Some tasks are kept in a history of a thousand, in which running ones must find an entry.
	maxConcurrentTasks = 256
)

var (
	_ component.Config    = (*Config)(nil)
	_ confmap.Unmarshaler = (*Config)(nil)
	_ confmap.Validator   = (*Config)(nil)
)

func createDefaultConfig() component.Config {
	return &Config{
		RootPath: "/",
		Targets:  TargetsConfig{ScanInterval: 10 * time.Second},
		Observe:  defaultObserve(),
		Metrics:  defaultMetrics(),
		Events:   metadata.DefaultEventsConfig(),
		Symbols:  SymbolsConfig{DebugInfo: true, CacheMiB: 256},
		Limits:   LimitsConfig{MemoryMiB: 256, CPUPercent: 2, ConcurrentTasks: 16},
	}
}

// Unmarshal reads the configuration. Where observe is given, only what it lists
// runs. Errors are as those of Validate.
func (c *Config) Unmarshal(conf *confmap.Conf) error {
	values := conf.ToStringMap()
	if faults := checkKeys(values); len(faults) > 0 {
		return faultsOf(values, faults, notText("", values, reflect.TypeFor[Config]()))
	}
	if conf.IsSet("observe") {
		c.Observe = ObserveConfig{}
	}
	if err := conf.Unmarshal(c); err != nil {
		if texts := notText("", values, reflect.TypeFor[Config]()); len(texts) > 0 {
			return faultsOf(values, nil, texts)
		}
		return err
	}
	return nil
}

// Validate checks every value. Each of the joined errors begins with the path of the
// key below the receiver, whose name the Collector knows and a configuration does not.
func (c *Config) Validate() error {
	errs := []error{c.validateRoot()}
	errs = append(errs, setting.Selectors("targets::include", c.Targets.Include)...)
	errs = append(errs, setting.Selectors("targets::exclude", c.Targets.Exclude)...)
	errs = append(errs, setting.WithoutSet("targets::exclude", c.Targets.Exclude)...)
	errs = append(errs, setting.Between("targets::scan_interval", c.Targets.ScanInterval, minScanInterval, maxScanInterval))
	limits := c.Limits.ofKinds()
	errs = append(errs, c.Observe.validate(limits)...)
	errs = append(errs, c.Metrics.validate("metrics")...)
	errs = append(errs, validatePolicies("policies", c.Policies, limits)...)
	errs = append(errs, validateTasks("tasks", c.Tasks, limits)...)
	errs = append(errs, c.Symbols.validate("symbols")...)
	errs = append(errs, setting.Between("limits::memory_mib", c.Limits.MemoryMiB, minMemoryMiB, maxMemoryMiB))
	if c.Limits.CPUPercent <= 0 || c.Limits.CPUPercent > 100 || math.IsNaN(c.Limits.CPUPercent) {
		errs = append(errs, fmt.Errorf("limits::cpu_percent: %v is not allowed: it is per cent of one core, above 0 and at most 100", c.Limits.CPUPercent))
	}
	errs = append(errs, setting.Between("limits::concurrent_tasks", c.Limits.ConcurrentTasks, 1, maxConcurrentTasks))
	return errors.Join(errs...)
}

func (c *Config) validateRoot() error {
	if !path.IsAbs(c.RootPath) {
		return fmt.Errorf("root_path: %q is not allowed: it must be absolute", c.RootPath)
	}
	info, err := os.Stat(c.RootPath)
	if err != nil {
		return fmt.Errorf("root_path: the host's file system must be mounted there: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("root_path: %s is not a directory: the host's file system must be mounted there", c.RootPath)
	}
	if runtime.GOOS != "linux" {
		return nil // the receiver says itself that it observes Linux alone
	}
	if _, err := os.Stat(path.Join(c.RootPath, "proc/self")); err != nil {
		return fmt.Errorf("root_path: %s has no proc: the host's file system must be mounted there, its /proc included: %w", c.RootPath, err)
	}
	return nil
}

// ofKinds are the limits that options of kinds are validated against.
func (c *LimitsConfig) ofKinds() observe.Limits {
	if c.MemoryMiB < minMemoryMiB {
		return observe.Limits{} // which is an error itself
	}
	return observe.Limits{MemoryMiB: c.MemoryMiB}
}
