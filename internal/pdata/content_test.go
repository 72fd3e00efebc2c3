// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// full is a profile that has everything, with two sample types.
func full() *model.Profile {
	binary := &model.Mapping{
		Start: 0x1000, Limit: 0x5000, FileOffset: 0x200, Path: "/usr/bin/checkout",
		BuildID: model.BuildID{GNU: "0a1b", Go: "go/id", HTLHash: "ffee"},
	}
	outer := &model.Function{Name: "main.outer", SystemName: "main.outer", Filename: "/src/main.go", StartLine: 10}
	inner := &model.Function{Name: "main.inner", SystemName: "main.inner", Filename: "/src/main.go", StartLine: 3}
	return &model.Profile{
		Process: &model.Process{
			ID: model.ProcessID{PID: 42, StartTicks: 9}, Comm: "checkout", Executable: "/usr/bin/checkout",
			CreationTime: time.Date(2026, 11, 21, 10, 0, 0, 120e6, time.FixedZone("", 3600)),
			ServiceName:  "shop", ServiceInstanceID: "instance", ContainerID: "c0ffee", PodUID: "pod-uid",
			Attributes: map[string]string{"team": "pay", "deployment.environment.name": "prod"},
		},
		Kind:        "memory",
		SampleTypes: []model.ValueType{{Type: "alloc_space", Unit: "bytes"}, {Type: "alloc_objects", Unit: "count"}},
		PeriodType:  model.ValueType{Type: "space", Unit: "bytes"}, Period: 524288,
		Start: start, Duration: 5 * time.Second, TaskID: "task-1",
		Samples: []model.Sample{
			{
				ThreadID: 43, ThreadName: "worker", Error: model.StackCut, Values: []int64{100, 2},
				Frames: []*model.Frame{
					{Type: model.FrameKernel, Address: 0xffff, Lines: []model.Line{{Function: &model.Function{Name: "do_syscall_64"}}}},
					{Type: model.FrameGo, Mapping: binary, Address: 0x1234, Lines: []model.Line{
						{Function: inner, Line: 5}, {Function: outer, Line: 12},
					}},
					{Type: model.FrameNative, Mapping: binary, Address: 0x2000},
				},
			},
			{ThreadID: 43, ThreadName: "worker", Error: model.StackFault, Values: []int64{7}},
		},
	}
}

// strings and attributes read references back, without the code under test.
func attributesAt(d pprofile.ProfilesDictionary, indices pcommon.Int32Slice) map[string]any {
	out := map[string]any{}
	for _, i := range indices.All() {
		a := d.AttributeTable().At(int(i))
		out[d.StringTable().At(int(a.KeyStrindex()))] = a.Value().AsRaw()
	}
	return out
}

func TestProfilesContent(t *testing.T) {
	unnamed := full()
	unnamed.Runtime = model.Runtime{Language: model.FrameV8, Names: model.NamesNone}
	out := roundTrip(t, newTestBuilder().Profiles([]*model.Profile{unnamed}))
	requireValid(t, out)
	require.Equal(t, 1, out.ResourceProfiles().Len())
	rp := out.ResourceProfiles().At(0)
	require.Equal(t, SchemaURL, rp.SchemaUrl())
	require.Equal(t, map[string]any{
		"service.name": "shop", "service.instance.id": "instance", "process.pid": int64(42),
		"process.executable.name": "checkout", "process.executable.path": "/usr/bin/checkout",
		"process.creation.time": "2026-11-21T09:00:00.120Z", "container.id": "c0ffee", "k8s.pod.uid": "pod-uid",
		"team": "pay", "deployment.environment.name": "prod",
	}, rp.Resource().Attributes().AsRaw())
	require.Equal(t, 1, rp.ScopeProfiles().Len())
	sp := rp.ScopeProfiles().At(0)
	require.Equal(t, SchemaURL, sp.SchemaUrl())
	require.Equal(t, "test/scope", sp.Scope().Name())
	require.Equal(t, "1.2.3", sp.Scope().Version())

	d := out.Dictionary()
	text := func(i int32) string { return d.StringTable().At(int(i)) }
	require.Equal(t, 2, sp.Profiles().Len(), "one for each sample type")
	wantTypes := []model.ValueType{{Type: "alloc_space", Unit: "bytes"}, {Type: "alloc_objects", Unit: "count"}}
	wantValues := [][]int64{{100, 7}, {2, 0}}
	ids := map[pprofile.ProfileID]bool{}
	for i, p := range sp.Profiles().All() {
		ids[p.ProfileID()] = true
		require.Equal(t, wantTypes[i], model.ValueType{Type: text(p.SampleType().TypeStrindex()), Unit: text(p.SampleType().UnitStrindex())})
		require.Equal(t, "space", text(p.PeriodType().TypeStrindex()))
		require.Equal(t, "bytes", text(p.PeriodType().UnitStrindex()))
		require.EqualValues(t, 524288, p.Period())
		require.Equal(t, start, p.Time().AsTime())
		require.EqualValues(t, 5e9, p.DurationNano())
		require.Equal(t, map[string]any{
			"ebpf.task.id": "task-1", "ebpf.runtime.language": "v8js", "ebpf.runtime.names": "none",
		}, attributesAt(d, p.AttributeIndices()))

		require.Equal(t, 2, p.Samples().Len())
		cut, missing := p.Samples().At(0), p.Samples().At(1)
		require.Equal(t, wantValues[i][:1], cut.Values().AsRaw())
		require.Equal(t, wantValues[i][1:], missing.Values().AsRaw())
		require.Zero(t, missing.StackIndex())
		require.Equal(t, map[string]any{"thread.id": int64(43), "thread.name": "worker", "ebpf.stack.error": "max_depth"},
			attributesAt(d, cut.AttributeIndices()))
		require.Equal(t, map[string]any{"thread.id": int64(43), "thread.name": "worker", "ebpf.stack.error": "fault"},
			attributesAt(d, missing.AttributeIndices()))
		requireFullStack(t, d, cut.StackIndex())
	}
	require.Len(t, ids, 2)
	require.Len(t, unique(d.StringTable().AsRaw()), d.StringTable().Len(), "no string twice")
}

// TestLateLines exports a frame that was taken before its lines were known with those lines.
func TestLateLines(t *testing.T) {
	p := full()
	settled := p.Samples[0].Frames[1]
	early := &model.Frame{
		Type: settled.Type, Mapping: settled.Mapping, Address: settled.Address, Lines: settled.Lines[1:], Late: new(atomic.Pointer[model.Frame]),
	}
	early.Late.Store(settled)
	p.Samples[0].Frames[1] = early
	out := roundTrip(t, newTestBuilder().Profiles([]*model.Profile{p}))
	requireValid(t, out)
	requireFullStack(t, out.Dictionary(), out.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples().At(0).StackIndex())
}

// requireFullStack reads the stack of full back, leaf first.
func requireFullStack(t *testing.T, d pprofile.ProfilesDictionary, index int32) {
	text := func(i int32) string { return d.StringTable().At(int(i)) }
	indices := d.StackTable().At(int(index)).LocationIndices()
	require.Equal(t, 3, indices.Len())
	at := func(i int) pprofile.Location { return d.LocationTable().At(int(indices.At(i))) }

	kernel, inlined, unnamed := at(0), at(1), at(2)
	require.EqualValues(t, 0xffff, kernel.Address())
	require.Zero(t, kernel.MappingIndex())
	require.Equal(t, map[string]any{"profile.frame.type": "kernel"}, attributesAt(d, kernel.AttributeIndices()))
	require.Equal(t, map[string]any{"profile.frame.type": "go"}, attributesAt(d, inlined.AttributeIndices()))
	require.Equal(t, map[string]any{"profile.frame.type": "native"}, attributesAt(d, unnamed.AttributeIndices()))
	require.EqualValues(t, 0x2000, unnamed.Address())
	require.Zero(t, unnamed.Lines().Len())
	require.Equal(t, inlined.MappingIndex(), unnamed.MappingIndex())

	require.Equal(t, 2, inlined.Lines().Len())
	for i, want := range []struct {
		name        string
		line, start int64
	}{{"main.inner", 5, 3}, {"main.outer", 12, 10}} {
		line := inlined.Lines().At(i)
		fn := d.FunctionTable().At(int(line.FunctionIndex()))
		require.Equal(t, want.line, line.Line())
		require.Equal(t, want.name, text(fn.NameStrindex()))
		require.Equal(t, want.name, text(fn.SystemNameStrindex()))
		require.Equal(t, "/src/main.go", text(fn.FilenameStrindex()))
		require.Equal(t, want.start, fn.StartLine())
	}
	m := d.MappingTable().At(int(inlined.MappingIndex()))
	require.EqualValues(t, 0x1000, m.MemoryStart())
	require.EqualValues(t, 0x5000, m.MemoryLimit())
	require.EqualValues(t, 0x200, m.FileOffset())
	require.Equal(t, "/usr/bin/checkout", text(m.FilenameStrindex()))
	require.Equal(t, map[string]any{
		"process.executable.build_id.gnu": "0a1b", "process.executable.build_id.go": "go/id",
		"process.executable.build_id.htlhash": "ffee",
	}, attributesAt(d, m.AttributeIndices()))
}

func unique(in []string) map[string]bool {
	out := map[string]bool{}
	for _, s := range in {
		out[s] = true
	}
	return out
}

func TestPutProcess(t *testing.T) {
	tests := map[string]struct {
		in   *model.Process
		want map[string]any
	}{
		"host": {in: nil, want: map[string]any{}},
		"kernel thread": {
			in: &model.Process{ID: model.ProcessID{PID: 2}, Comm: "kthreadd", KernelThread: true, ServiceName: "unknown_service:kthreadd"},
			want: map[string]any{
				"service.name": "unknown_service:kthreadd", "process.pid": int64(2), "process.executable.name": "kthreadd",
			},
		},
		"selector wins": {
			in: &model.Process{
				ID: model.ProcessID{PID: 3}, Executable: "/bin/a", ServiceName: "s", ServiceInstanceID: "found",
				Attributes: map[string]string{"service.instance.id": "mine"},
			},
			want: map[string]any{
				"service.name": "s", "service.instance.id": "mine", "process.pid": int64(3),
				"process.executable.name": "a", "process.executable.path": "/bin/a",
			},
		},
		"not UTF-8": {
			in:   &model.Process{ID: model.ProcessID{PID: 4}, Executable: "/bin/\xff", ServiceName: "s"},
			want: map[string]any{"service.name": "s", "process.pid": int64(4), "process.executable.name": "\ufffd", "process.executable.path": "/bin/\ufffd"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := pcommon.NewMap()
			PutProcess(got, tt.in)
			require.Equal(t, tt.want, got.AsRaw())
		})
	}
}

func TestTextIsUTF8(t *testing.T) {
	p := newProfile(1)
	fn := &model.Function{Name: "f\xc3"}
	p.Samples = []model.Sample{
		{ThreadName: "a\xff", Values: []int64{1}, Frames: []*model.Frame{{Lines: []model.Line{{Function: fn}}}}},
		{ThreadName: "a\xfe", Values: []int64{2}, Frames: []*model.Frame{{Lines: []model.Line{{Function: &model.Function{Name: "f\xc2"}}}}}},
	}
	out := newTestBuilder().Profiles([]*model.Profile{p})
	requireValid(t, out)
	require.Equal(t, 1, out.SampleCount(), "what reads the same is the same")
	require.NoError(t, Fold(out, func(s FoldedSample) error {
		require.Equal(t, map[string]any{"thread.name": "a\ufffd"}, s.Attributes.AsRaw())
		require.Equal(t, "f\ufffd", s.Stack[0].Function)
		require.EqualValues(t, 3, s.Value)
		return nil
	}))
}

// TestTextIsHarmless builds names that do things to a terminal, from all places where programs choose them: none of it leaves.
func TestTextIsHarmless(t *testing.T) {
	const evil, harmless = "\x1b]0;title\x07 \x00\r\n\x7f\u009b2J é", "\ufffd]0;title\ufffd \ufffd\ufffd\ufffd\ufffd\ufffd2J é"
	p := newProfile(1)
	p.Process.Executable, p.Process.ServiceName = "/bin/"+evil, evil
	p.Process.Attributes = map[string]string{"a" + evil: evil}
	p.Samples = []model.Sample{{
		ThreadName: evil, Values: []int64{1},
		Frames: []*model.Frame{{
			Mapping: &model.Mapping{Path: "/lib/" + evil},
			Lines:   []model.Line{{Function: &model.Function{Name: evil, SystemName: evil, Filename: "/src/" + evil}}},
		}},
	}}
	out := roundTrip(t, newTestBuilder().Profiles([]*model.Profile{p}))
	for _, s := range out.Dictionary().StringTable().All() {
		require.Equal(t, -1, strings.IndexFunc(s, unicode.IsControl), "%q", s)
	}
	require.NoError(t, Fold(out, func(s FoldedSample) error {
		require.Equal(t, map[string]any{"thread.name": harmless}, s.Attributes.AsRaw())
		require.Equal(t, harmless, s.Stack[0].Function)
		require.Equal(t, "/lib/"+harmless, s.Stack[0].Mapping)
		require.Equal(t, "/src/"+harmless, s.Stack[0].Filename)
		for key, want := range map[string]string{
			"service.name": harmless, "process.executable.path": "/bin/" + harmless, "process.executable.name": harmless, "a" + harmless: harmless,
		} {
			got, _ := s.Resource.Get(key)
			require.Equal(t, want, got.AsString(), "%q", key)
		}
		return nil
	}))
}

func TestTimestamp(t *testing.T) {
	require.Zero(t, timestamp(time.Time{}))
	require.EqualValues(t, 1, timestamp(time.Unix(0, 1)))
	require.EqualValues(t, start.UnixNano(), timestamp(start))
}
