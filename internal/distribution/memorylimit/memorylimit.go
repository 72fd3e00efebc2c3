// SPDX-License-Identifier: Apache-2.0

// Package memorylimit sets Go's soft limit of memory by the control group of the process, in the distribution otelcol-ebpf only.
//
// Go lets its heap grow to twice what is in use before it collects garbage, whatever the control group allows, and the kernel kills a process that exceeds
// that. With a soft limit below Go collects more often as it comes near. The limit is one of the whole process: a package must not set it for programs
// that it is a part of, so the receiver does not. GOMEMLIMIT wins over this package.
//
// The package comes as a converter of configuration that changes nothing, as profilesgate does.
package memorylimit // import "github.com/otelcol-ebpf/ebpfreceiver/internal/distribution/memorylimit"

import (
	"context"
	"math"
	"os"
	"runtime/debug"

	"go.opentelemetry.io/collector/confmap"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/cgroup"
)

// Go's memory and the kernel's share what the control group allows: maps are half of limits::memory_mib at most, and the verifier takes 20 MiB while programs
// are loaded.
const goShare, ofShares = 3, 5

// variable is what users set Go's soft limit by.
const variable = "GOMEMLIMIT"

// NewFactory sets the limit and returns a converter that leaves the configuration as it is.
func NewFactory() confmap.ConverterFactory {
	limits, err := cgroup.Read()
	set := limitOf(limits, os.Getenv(variable), debug.SetMemoryLimit(-1))
	if set > 0 {
		debug.SetMemoryLimit(set)
	}
	return confmap.NewConverterFactory(func(settings confmap.ConverterSettings) confmap.Converter {
		return &reporter{logger: settings.Logger, limits: limits, set: set, err: err}
	})
}

// limitOf returns the soft limit for those of a control group, 0 for none. configured is the variable's value, current the limit that was set already.
func limitOf(limits cgroup.Limits, configured string, current int64) int64 {
	if limits.Memory == 0 || limits.Memory > math.MaxInt64 || configured != "" || current != math.MaxInt64 {
		return 0
	}
	return int64(limits.Memory / ofShares * goShare)
}

// reporter is the converter: it logs once what was set.
type reporter struct {
	logger *zap.Logger
	limits cgroup.Limits
	set    int64
	err    error
}

// Convert changes nothing in the configuration.
func (r *reporter) Convert(context.Context, *confmap.Conf) error {
	if r.logger == nil {
		return nil
	}
	if r.err != nil {
		r.logger.Warn("the limit of memory of the Collector's control group is not known; set "+variable+" if it has one", zap.Error(r.err))
	}
	if r.set > 0 {
		r.logger.Debug("Go's soft limit of memory is set to three fifths of the control group's; "+variable+" changes it",
			zap.Int64("bytes", r.set), zap.String("file", r.limits.MemoryFile))
	}
	r.err, r.set = nil, 0
	return nil
}
