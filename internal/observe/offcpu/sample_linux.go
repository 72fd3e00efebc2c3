// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package offcpu

import (
	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
)

// shape is what a sample says.
var shape = stacks.Shape{
	Kind:     Name,
	Sums:     []stacks.Sum{{ValueType: model.ValueType{Type: "off_cpu", Unit: "nanoseconds"}, Of: stacks.First}},
	Describe: describe,
}

// reasons are the names of enum block_reason.
var reasons = [bindings.OffCPUBlockReasonBLOCK_REASONS]model.BlockReason{
	bindings.OffCPUBlockReasonBLOCK_OTHER:      model.BlockOther,
	bindings.OffCPUBlockReasonBLOCK_LOCK:       model.BlockLock,
	bindings.OffCPUBlockReasonBLOCK_DISK:       model.BlockDisk,
	bindings.OffCPUBlockReasonBLOCK_NETWORK:    model.BlockNetwork,
	bindings.OffCPUBlockReasonBLOCK_SLEEP:      model.BlockSleep,
	bindings.OffCPUBlockReasonBLOCK_PREEMPTED:  model.BlockPreempted,
	bindings.OffCPUBlockReasonBLOCK_PAGE_FAULT: model.BlockPageFault,
	bindings.OffCPUBlockReasonBLOCK_SHORT:      model.BlockShort,
}

func describe(e *stacks.Entry, s *model.Sample) {
	s.BlockReason = model.BlockOther
	if e.Tag < uint32(len(reasons)) {
		s.BlockReason = reasons[e.Tag]
	}
	s.Frames = withoutHook(s.Frames)
}

const (
	// scheduler is the kernel's function in which every wait is (kernel/sched/core.c).
	scheduler = "__schedule"
	// hookFrames is more than the hook has on top of the scheduler.
	hookFrames = 12
)

// withoutHook leaves out the frames of the observation itself, which are on top of
// the scheduler's. Where the kernel hides its names they stay.
func withoutHook(frames []*model.Frame) []*model.Frame {
	for i, f := range frames[:min(len(frames), hookFrames)] {
		if f.Type == model.FrameKernel && len(f.Lines) > 0 && f.Lines[0].Function.Name == scheduler {
			return frames[i:]
		}
	}
	return frames
}
