// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package offcpu

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/stacks"
)

func kernelFrames(names string) (frames []*model.Frame) {
	for name := range strings.FieldsSeq(names) {
		frame := &model.Frame{Type: model.FrameKernel}
		if name != "-" {
			frame.Lines = []model.Line{{Function: &model.Function{Name: name}}}
		}
		frames = append(frames, frame)
	}
	return frames
}

func TestWithoutHook(t *testing.T) {
	for in, left := range map[string]int{
		"": 0,
		"- __traceiter_sched_exit_tp __schedule schedule futex_wait": 3,
		"finish_task_switch __schedule":                              1,
		"- - schedule":                                               3,  // the kernel hides its names
		strings.Repeat("f ", 12) + "__schedule":                      13, // the program's own function of that name, maybe
	} {
		require.Len(t, withoutHook(kernelFrames(in)), left, in)
	}
	user := kernelFrames("__schedule main")
	user[0].Type = model.FrameNative
	require.Len(t, withoutHook(append(kernelFrames("schedule"), user...)), 3)
}

func TestDescribe(t *testing.T) {
	for tag, want := range []model.BlockReason{"other", "lock", "disk", "network", "sleep", "preempted", "page_fault", "short", "other"} {
		s := model.Sample{Frames: kernelFrames("hook __schedule")}
		describe(&stacks.Entry{OnCPUStackEntry: &bindings.OnCPUStackEntry{Tag: uint32(tag)}}, &s)
		require.Equal(t, want, s.BlockReason)
		require.Len(t, s.Frames, 1)
	}
}

func TestLevelsReduceWhateverWasConfigured(t *testing.T) {
	require.Zero(t, minBlock(0, 0), "as configured")
	require.Equal(t, time.Millisecond, minBlock(time.Millisecond, 0))
	require.Equal(t, 8*time.Millisecond, minBlock(time.Millisecond, 3))
	require.Equal(t, 100*time.Microsecond, minBlock(0, 1))
	require.Equal(t, 3200*time.Microsecond, minBlock(0, 6))
}
