// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Depth is how deep the two stacks of an entry are taken and told.
type Depth struct {
	User, Kernel Cut
}

// Cut is how deep a stack is taken and told.
type Cut struct {
	Asked int // frames that are taken
	Told  int // frames that are told; a stack that reaches Asked is deeper and is cut here
}

// DepthOf takes one frame more than is told, to see which stacks are cut; of the
// kernel's stacks as far as it goes, which the procfs at procRoot says.
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
	told := min(maxDepth, MaxDepth)
	asked := min(told+1, helperFrames, limit)
	return Depth{User: Cut{Asked: told + 1, Told: told}, Kernel: Cut{Asked: asked, Told: min(told, asked)}}, nil
}

// EntryBytes is the size of the largest entry: the kernel begins none unless this
// much of a table is free.
func (d Depth) EntryBytes() int { return EntryHeadBytes + 8*(d.User.Asked+d.Kernel.Asked) }

// trim cuts a stack to the depth that is told and says whether it was deeper.
func (c Cut) trim(stack []uint64) ([]uint64, bool) {
	if len(stack) < c.Asked {
		return stack, false
	}
	return stack[:c.Told], true
}
