// SPDX-License-Identifier: Apache-2.0

package stacks

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Depth is the depth to which the two stacks of an entry are taken and exported.
type Depth struct {
	User, Kernel Cut
}

// Cut is the depth to which a stack is taken and exported.
type Cut struct {
	Asked    int // frames that are taken
	Exported int // frames that are exported; a stack that reaches Asked is deeper and is cut here
}

// DepthOf takes one frame more than is exported, to see which stacks are cut; of the
// kernel's stacks at most as many as its limit in the procfs at procRoot.
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
	exported := min(maxDepth, MaxDepth)
	asked := min(exported+1, helperFrames, limit)
	return Depth{User: Cut{Asked: exported + 1, Exported: exported}, Kernel: Cut{Asked: asked, Exported: min(exported, asked)}}, nil
}

// EntryBytes is the size of the largest entry: the kernel begins none unless this
// much of a table is free.
func (d Depth) EntryBytes() int { return EntryHeadBytes + 8*(d.User.Asked+d.Kernel.Asked) }

// trim cuts a stack to the depth that is exported and reports whether it was deeper.
func (c Cut) trim(stack []uint64) ([]uint64, bool) {
	if len(stack) < c.Asked {
		return stack, false
	}
	return stack[:c.Exported], true
}
