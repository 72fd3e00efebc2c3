// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// TestMapBytes holds that the exported memory of the kernel's maps is what the kernel reports of all maps that this process has.
func TestMapBytes(t *testing.T) {
	needRoot(t)
	before := mapsByTheKernel(t)
	c := configuration(10 * time.Millisecond)
	c.MemoryBytes = 32 << 20
	c.Observe = append(c.Observe, &offcpu.Options{Common: observe.Common{ReportInterval: time.Second}, Options: stacks.Options{KernelStacks: true, UserStacks: true, MaxDepth: 127}, MinBlock: time.Millisecond})
	c.Observe = append(c.Observe, &memory.Options{Common: observe.Common{ReportInterval: time.Second}, Source: memory.SourceMalloc, SampleBytes: setting.ByteSize(512 << 10), Live: true})
	e := begin(t, c)
	var exported, held uint64
	require.Eventually(t, func() bool { // no table came meanwhile
		exported, held = e.Stats().MapBytes, 0
		for id, bytes := range mapsByTheKernel(t) {
			if _, ok := before[id]; !ok {
				held += bytes
			}
		}
		return e.Stats().MapBytes == exported
	}, time.Minute, 10*time.Millisecond)
	t.Logf("exported %d, by the kernel %d", exported, held)
	require.InEpsilon(t, held, exported, 0.1)
}

// mapsByTheKernel is the memory of each map that this process has a descriptor of, by the map's number.
func mapsByTheKernel(t *testing.T) map[string]uint64 {
	t.Helper()
	const dir = "/proc/self/fdinfo/"
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	maps := map[string]uint64{}
	for _, one := range list {
		text, err := os.ReadFile(dir + one.Name())
		if os.IsNotExist(err) {
			continue // the folder's own
		}
		require.NoError(t, err)
		fields := map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			fields[name] = strings.TrimSpace(value)
		}
		if fields["map_id"] == "" {
			continue
		}
		bytes, err := strconv.ParseUint(fields["memlock"], 10, 64)
		require.NoError(t, err, fmt.Sprint(fields))
		maps[fields["map_id"]] = bytes
	}
	return maps
}
