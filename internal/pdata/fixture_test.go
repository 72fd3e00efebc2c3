// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/pkg/pdatatest/pprofiletest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

var (
	cpuTypes  = []model.ValueType{{Type: "samples", Unit: "count"}}
	cpuPeriod = model.ValueType{Type: "cpu", Unit: "nanoseconds"}
	start     = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
)

// newTestBuilder counts profile ids, so that its output repeats.
func newTestBuilder() *Builder {
	b := NewBuilder("test/scope", "1.2.3")
	var n uint64
	b.newID = func() (id pprofile.ProfileID) {
		n++
		binary.BigEndian.PutUint64(id[8:], n)
		return id
	}
	return b
}

// requireValid checks every profile with contrib's validator, that every table
// begins with its zero value, and that what samples refer to exists.
func requireValid(t require.TestingT, p pprofile.Profiles) {
	d := p.Dictionary()
	require.Equal(t, "", d.StringTable().At(0))
	require.Zero(t, d.AttributeTable().At(0).KeyStrindex())
	require.Zero(t, d.MappingTable().At(0).MemoryLimit())
	require.Zero(t, d.FunctionTable().At(0).NameStrindex())
	require.Zero(t, d.LocationTable().At(0).Lines().Len())
	require.True(t, d.LinkTable().At(0).TraceID().IsEmpty())
	require.Zero(t, d.StackTable().At(0).LocationIndices().Len())
	for _, rp := range p.ResourceProfiles().All() {
		for _, sp := range rp.ScopeProfiles().All() {
			for _, profile := range sp.Profiles().All() {
				require.NoError(t, pprofiletest.ValidateProfile(d, profile))
			}
		}
	}
	require.NoError(t, Fold(p, func(FoldedSample) error { return nil }), "every reference resolves")
}

// roundTrip is p as a receiver gets it, after protobuf.
func roundTrip(t require.TestingT, p pprofile.Profiles) pprofile.Profiles {
	p.MarkReadOnly()
	raw, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(p)
	require.NoError(t, err)
	out, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(raw)
	require.NoError(t, err)
	return out
}

// sums adds up the values of all samples by everything that identifies them.
func sums(t require.TestingT, messages ...pprofile.Profiles) map[string]int64 {
	out := map[string]int64{}
	for _, p := range messages {
		require.NoError(t, Fold(p, func(s FoldedSample) error {
			key := fmt.Sprint(s.Resource.AsRaw(), s.Profile.Type, s.Profile.Attributes.AsRaw(),
				s.Attributes.AsRaw(), s.Stack)
			out[key] += s.Value
			return nil
		}))
	}
	return out
}

// load makes profiles of that many processes with samples in all, as a busy
// host has them: two thirds of the stacks are distinct, the callers form a tree
// that widens towards the leaf, and the three leaf-most frames are any.
func load(tb testing.TB, processes, total, depth int) []*model.Profile {
	tb.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	frames := loadFrames(5000)
	stack := func() []*model.Frame {
		out := make([]*model.Frame, depth)
		path := rnd.IntN(200)
		width := 1.0
		for j := range out {
			level := depth - 1 - j
			if level < 3 {
				out[level] = frames[4000+rnd.IntN(1000)]
				continue
			}
			out[level] = frames[(j*131+path%int(width))%4000]
			width = min(width*1.3, 200)
		}
		return out
	}
	profiles := make([]*model.Profile, processes)
	for i := range profiles {
		p := newProfile(uint32(1000 + i))
		var pool [][]*model.Frame
		n := total / processes
		for j := range n {
			if j*3 < n*2 {
				pool = append(pool, stack())
			}
			p.Samples = append(p.Samples, model.Sample{
				ThreadID: uint32(1000 + i + j%4*10000), ThreadName: fmt.Sprintf("worker-%d", j%4),
				Frames: pool[j%len(pool)], Values: []int64{1},
			})
		}
		profiles[i] = p
	}
	return profiles
}

// loadFrames makes n frames of one binary, each with a function of its own.
func loadFrames(n int) []*model.Frame {
	binary := &model.Mapping{Start: 0x1000, Limit: 1 << 20, Path: "/usr/bin/server", BuildID: model.BuildID{GNU: "abcdef"}}
	frames := make([]*model.Frame, n)
	for i := range frames {
		fn := &model.Function{
			Name:       fmt.Sprintf("service::module_%d::handler<int, %d>", i%100, i),
			SystemName: fmt.Sprintf("_ZN7service6module%d", i),
		}
		frames[i] = &model.Frame{
			Type: model.FrameNative, Mapping: binary, Address: uint64(0x1000 + 16*i),
			Lines: []model.Line{{Function: fn}},
		}
	}
	return frames
}

// newProfile is an on_cpu profile of a process, without samples.
func newProfile(pid uint32) *model.Profile {
	return &model.Profile{
		Process: &model.Process{
			ID: model.ProcessID{PID: pid}, Executable: "/usr/bin/server", CreationTime: start,
			ServiceName: fmt.Sprintf("service-%d", pid), ServiceInstanceID: fmt.Sprint(pid),
		},
		Kind: "on_cpu", SampleTypes: cpuTypes, PeriodType: cpuPeriod, Period: 9e6,
		Start: start, Duration: 5 * time.Second,
	}
}
