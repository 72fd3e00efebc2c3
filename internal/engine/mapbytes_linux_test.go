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
)

// TestMapBytes holds that the memory told of the kernel's maps is what the kernel says of all maps that this process has.
func TestMapBytes(t *testing.T) {
	needRoot(t)
	before := mapsByTheKernel(t)
	c := configuration(10 * time.Millisecond)
	c.MemoryBytes = 32 << 20
	c.OffCPU = &OffCPU{MinBlock: time.Millisecond, ReportInterval: time.Second, KernelStacks: true, UserStacks: true, MaxDepth: 127}
	c.Memory = &Memory{Distance: 512 << 10, Live: true, ReportInterval: time.Second}
	e := begin(t, c)
	told := e.Stats().MapBytes
	held := uint64(0)
	for id, bytes := range mapsByTheKernel(t) {
		if _, ok := before[id]; !ok {
			held += bytes
		}
	}
	t.Logf("told %d, by the kernel %d", told, held)
	require.InEpsilon(t, held, told, 0.1)
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
