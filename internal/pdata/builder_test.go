// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/pprofiletest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func TestProfilesOfNothing(t *testing.T) {
	b := newTestBuilder()
	for _, in := range [][]*model.Profile{nil, {nil}, {{}}, {{SampleTypes: cpuTypes}}, {{Samples: make([]model.Sample, 1)}}} {
		p := b.Profiles(in)
		require.Zero(t, p.ResourceProfiles().Len())
		requireValid(t, p)
		require.Empty(t, b.Batches(in, 10))
	}
}

func TestProfilesMergeEqualSamples(t *testing.T) {
	frames := loadFrames(3)
	again := *frames[1] // the same place, forgotten by the symbolizer and found again
	fn := *frames[1].Lines[0].Function
	mapping := *frames[1].Mapping
	again.Mapping, again.Lines = &mapping, []model.Line{{Function: &fn}}

	p := newProfile(7)
	sample := func(tid uint32, name string, err model.StackError, v int64, frames ...*model.Frame) {
		p.Samples = append(p.Samples, model.Sample{ThreadID: tid, ThreadName: name, Error: err, Values: []int64{v}, Frames: frames})
	}
	sample(1, "a", "", 1, frames[0], frames[1])
	sample(1, "a", "", 2, frames[0], &again)
	sample(1, "b", "", 4, frames[0], frames[1])
	sample(2, "a", "", 8, frames[0], frames[1])
	sample(1, "a", model.StackCut, 16, frames[0], frames[1])
	sample(1, "a", "", 32, frames[1], frames[0])
	sample(1, "a", "", 64, frames[0])
	sample(1, "a", "", 128, frames[0], frames[1])
	out := newTestBuilder().Profiles([]*model.Profile{p})
	requireValid(t, out)

	var values []int64
	require.NoError(t, Fold(out, func(s FoldedSample) error {
		values = append(values, s.Value)
		return nil
	}))
	require.Equal(t, []int64{1 + 2 + 128, 4, 8, 16, 32, 64}, values)
	d := out.Dictionary()
	require.Equal(t, 1+2, d.LocationTable().Len())
	require.Equal(t, 1+2, d.FunctionTable().Len())
	require.Equal(t, 1+1, d.MappingTable().Len())
	require.Equal(t, 1+3, d.StackTable().Len())
}

// TestBlockReasons checks that waits for different reasons are different samples and say which.
func TestBlockReasons(t *testing.T) {
	p := newProfile(7)
	p.SampleTypes = []model.ValueType{{Type: "off_cpu", Unit: "nanoseconds"}}
	frames := loadFrames(1)
	for i, reason := range []model.BlockReason{model.BlockLock, model.BlockPageFault, model.BlockLock, ""} {
		p.Samples = append(p.Samples, model.Sample{BlockReason: reason, Values: []int64{1 << i}, Frames: frames})
	}
	out := newTestBuilder().Profiles([]*model.Profile{p})
	requireValid(t, out)
	values := map[string]int64{}
	require.NoError(t, Fold(out, func(s FoldedSample) error {
		reason := ""
		if value, ok := s.Attributes.Get(KeyBlockReason); ok {
			reason = value.Str()
		}
		values[reason] += s.Value
		return nil
	}))
	require.Equal(t, map[string]int64{"lock": 5, "page_fault": 2, "": 8}, values)
}

func TestProfilesOfManyProcesses(t *testing.T) {
	in := load(t, 200, 2000, 10)
	// A second kind of a process joins the resource of the first.
	second := *in[0]
	second.SampleTypes = []model.ValueType{{Type: "off_cpu", Unit: "nanoseconds"}}
	in = append(in, &second)
	out := newTestBuilder().Profiles(in)
	requireValid(t, out)
	require.Equal(t, 200, out.ResourceProfiles().Len())
	require.Equal(t, 201, out.ProfileCount())
	require.Equal(t, 2, out.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().Len())

	var total int64
	for _, v := range sums(t, out) {
		total += v
	}
	require.EqualValues(t, 2000+10, total)
}

func TestProfilesRepeat(t *testing.T) {
	in := load(t, 10, 200, 10)
	marshal := func(b *Builder) []byte {
		raw, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(b.Profiles(in))
		require.NoError(t, err)
		return raw
	}
	first := newTestBuilder()
	want := marshal(first)
	require.Equal(t, want, marshal(newTestBuilder()), "the same input makes the same bytes")

	n := uint64(0)
	reset := newTestBuilder().newID
	first.newID = func() pprofile.ProfileID { n++; return reset() }
	require.Equal(t, want, marshal(first), "and so does a builder that was used before")
	require.EqualValues(t, 10, n)
}

func TestProfilesSurviveTheWire(t *testing.T) {
	p := newTestBuilder().Profiles(load(t, 10, 200, 10))
	p.MarkReadOnly()

	proto, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(p)
	require.NoError(t, err)
	fromProto, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(proto)
	require.NoError(t, err)
	json, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(p)
	require.NoError(t, err)
	fromJSON, err := (&pprofile.JSONUnmarshaler{DisallowUnknownFields: true}).UnmarshalProfiles(json)
	require.NoError(t, err)

	for _, got := range []pprofile.Profiles{fromProto, fromJSON} {
		requireValid(t, got)
		require.NoError(t, pprofiletest.CompareProfiles(p, got))
		require.Equal(t, sums(t, p), sums(t, got), "stacks too, which the comparison leaves out")
	}
}

func TestRandomID(t *testing.T) {
	seen := map[pprofile.ProfileID]bool{}
	for range 1000 {
		id := randomID()
		require.False(t, id.IsEmpty())
		require.False(t, seen[id])
		seen[id] = true
	}
}

func TestBuilderForgetsModel(t *testing.T) {
	b := NewBuilder("scope", "1")
	var process weak.Pointer[model.Process]
	var frame weak.Pointer[model.Frame]
	var function weak.Pointer[model.Function]
	func() {
		in := load(t, 1, 10, 5)
		process = weak.Make(in[0].Process)
		frame = weak.Make(in[0].Samples[0].Frames[0])
		function = weak.Make(in[0].Samples[0].Frames[0].Lines[0].Function)
		b.Profiles(in)
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return process.Value() == nil && frame.Value() == nil && function.Value() == nil
	}, time.Minute, time.Millisecond)
	runtime.KeepAlive(b)
}

func TestBuilderShrinksAfterBurst(t *testing.T) {
	b := NewBuilder("scope", "1")
	burst := newProfile(1)
	for _, f := range loadFrames(shrinkAbove) {
		burst.Samples = append(burst.Samples, model.Sample{Frames: []*model.Frame{f}, Values: []int64{1}})
	}
	b.Profiles([]*model.Profile{burst})
	require.Greater(t, b.peak, shrinkAbove)
	require.Greater(t, cap(b.dict.stacks.entries), shrinkAbove)

	small := load(t, 1, 10, 5)
	for range shrinkAfter - 1 {
		b.Profiles(small)
	}
	require.NotZero(t, b.peak, "not yet")
	b.Profiles(small)
	require.Zero(t, b.peak)
	require.Less(t, cap(b.dict.stacks.entries), shrinkAbove)
	b.Profiles(small)
	require.Less(t, cap(b.samples.keys), shrinkAbove)
}
