// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/cgroup"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

// What a Collector with this receiver takes besides limits::memory_mib: collectorBytes for itself, or what it has in use when the receiver starts and
// startBytes to load programs, if that is more. garbageShare is the part of memory_mib that Go's garbage takes: half of memory_mib is Go's at most.
const (
	collectorBytes = 96 << 20
	startBytes     = 32 << 20
	garbageShare   = 2
)

// fit reduces what the engine may use to what the control group of the Collector allows. It returns an error if less would be left than the
// receiver needs.
func fit(config *engine.Config, id component.ID, limits cgroup.Limits, anonymous uint64, logger *zap.Logger) error {
	key := func(name string) string { return fmt.Sprintf("receivers::%s::limits::%s", id, name) }
	if allowed := 100 * limits.CPUs; limits.CPUs > 0 && allowed < config.CPUPercent {
		logger.Warn(fmt.Sprintf("%s is reduced to the limit of the Collector's control group; raise that, or lower cpu_percent", key("cpu_percent")),
			zap.Float64("configured", config.CPUPercent), zap.Float64("used", allowed), zap.String("file", limits.CPUFile))
		config.CPUPercent = allowed
	}
	if limits.Memory == 0 {
		return nil
	}
	itself := max(collectorBytes, anonymous+startBytes)
	needs := func(bytes uint64) uint64 { return itself + bytes + bytes/garbageShare }
	if needs(config.MemoryBytes) <= limits.Memory {
		return nil
	}
	if least := needs(minMemoryMiB << 20); least > limits.Memory {
		return fmt.Errorf("%s: %d MiB do not fit into the control group of the Collector: %s is %d MiB, and the least that is needed is %d MiB "+
			"(%d MiB for the Collector, and one and a half times the least memory_mib, %d); "+
			"raise the limit of the control group (resources.limits.memory of Kubernetes, MemoryMax of systemd)",
			key("memory_mib"), config.MemoryBytes>>20, limits.MemoryFile, limits.Memory>>20, mebibytes(least), mebibytes(itself), minMemoryMiB)
	}
	left := (limits.Memory - itself) / (garbageShare + 1) * garbageShare >> 20 << 20
	logger.Warn(fmt.Sprintf("%s is reduced to what the limit of the Collector's control group leaves; raise that, or lower memory_mib", key("memory_mib")),
		zap.Uint64("configured_mib", config.MemoryBytes>>20), zap.Uint64("used_mib", left>>20),
		zap.Uint64("limit_mib", limits.Memory>>20), zap.String("file", limits.MemoryFile))
	config.MemoryBytes = left
	return nil
}

// inUse is the anonymous memory of this process in bytes when its first receiver of this type started: later on it includes what receivers hold, or
// held before the configuration was reloaded.
var inUse = sync.OnceValue(anonymous)

// anonymous is the anonymous memory of this process in bytes, 0 where that is not known.
func anonymous() uint64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// mebibytes rounds up.
func mebibytes(bytes uint64) uint64 { return (bytes + 1<<20 - 1) >> 20 }
