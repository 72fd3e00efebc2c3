// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.uber.org/goleak"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// asProgram makes the test binary be the program, for tests that start it.
const asProgram = "EBPF_TOP_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// stack is a stack of named functions, root first, in /usr/bin/BINARY; a name
// of "" is an address without one, kernel: begins a kernel function.
func stack(binary string, names ...string) []*model.Frame {
	m := &model.Mapping{Start: 0x1000, Limit: 0x9000, Path: "/usr/bin/" + binary}
	var out []*model.Frame
	for i, name := range names {
		f := &model.Frame{Type: model.FrameNative, Mapping: m, Address: uint64(0x1000 + i)}
		if kernel, ok := strings.CutPrefix(name, "kernel:"); ok {
			name = kernel
			f.Type, f.Mapping = model.FrameKernel, nil
		}
		if name != "" {
			f.Lines = []model.Line{{Function: &model.Function{Name: name}}}
		}
		out = append([]*model.Frame{f}, out...)
	}
	return out
}

// profile is what was seen of a process in the five seconds from begin.
func profile(pid uint32, exe string, begin time.Time, samples ...model.Sample) *model.Profile {
	return &model.Profile{
		Process:     &model.Process{ID: model.ProcessID{PID: pid}, Executable: "/usr/bin/" + exe, ServiceName: exe},
		Kind:        "on_cpu",
		SampleTypes: []model.ValueType{{Type: "samples", Unit: "count"}},
		PeriodType:  model.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 9e6,
		Start: begin, Duration: 5 * time.Second, Samples: samples,
	}
}

func sample(n int64, frames []*model.Frame) model.Sample {
	return model.Sample{ThreadID: 1, Frames: frames, Values: []int64{n}}
}

// line is a message as the file exporter writes it, line feed included.
func line(t testing.TB, in ...*model.Profile) []byte {
	raw, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(pdata.NewBuilder("test", "1").Profiles(in))
	require.NoError(t, err)
	return append(raw, '\n')
}

// two intervals of two demo processes and a web server.
func fixture(t testing.TB) []byte {
	web := []model.Sample{
		sample(60, stack("libc.so.6", "main", "serve", "kernel:entry_SYSCALL_64", "kernel:tcp_sendmsg")),
		sample(40, stack("web", "main", "serve", "")),
		sample(10, nil),
	}
	first := line(t,
		profile(1001, "demo", start, sample(350, stack("demo", "main", "burn")), sample(150, stack("demo", "main", "idle"))),
		profile(1002, "demo", start, sample(350, stack("demo", "main", "burn")), sample(150, stack("demo", "main", "burn", "burn"))),
		profile(2000, "web", start, web...),
	)
	second := line(t, profile(1001, "demo", start.Add(5*time.Second), sample(1, stack("demo", "main", "late"))))
	return append(first, second...)
}
