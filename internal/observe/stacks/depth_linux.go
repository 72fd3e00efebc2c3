// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Depth is how deep stacks are taken and told.
type Depth struct {
	Asked int // frames asked of the kernel
	Told  int // frames told; a stack that reaches Asked is deeper and is cut here
}

// DepthOf asks for one frame more than is told, to see which stacks are cut, as
// far as the kernel goes, which the procfs at procRoot says.
func DepthOf(maxDepth int, procRoot string) (Depth, error) {
	path := procRoot + "/sys/kernel/perf_event_max_stack"
	text, err := os.ReadFile(path)
	if err != nil {
		return Depth{}, fmt.Errorf("reading how deep the kernel unwinds: %w", err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return Depth{}, fmt.Errorf("reading %s: %w", path, err)
	}
	asked := min(maxDepth+1, MaxDepth, limit)
	return Depth{Asked: asked, Told: min(maxDepth, asked)}, nil
}

// trim cuts a stack to the depth that is told and says whether it was deeper.
func (d Depth) trim(stack []uint64) ([]uint64, bool) {
	if len(stack) < d.Asked {
		return stack, false
	}
	return stack[:d.Told], true
}
