// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func TestBatchesSplitBySamples(t *testing.T) {
	in := append(load(t, 7, 700, 12), full())
	whole := newTestBuilder().Profiles(in)
	for _, limit := range []int{1, 2, 3, 50, 99, 100, 101, 1000, 0, -1} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			batches := newTestBuilder().Batches(in, limit)
			ids := map[pprofile.ProfileID]bool{}
			for _, p := range batches {
				requireValid(t, p)
				require.Positive(t, p.SampleCount())
				if limit > 1 { // full has two sample types
					require.LessOrEqual(t, p.SampleCount(), limit)
				}
				for _, rp := range p.ResourceProfiles().All() {
					ids[rp.ScopeProfiles().At(0).Profiles().At(0).ProfileID()] = true
				}
			}
			require.Equal(t, sums(t, whole), sums(t, batches...))
			require.GreaterOrEqual(t, len(ids), 8)
			switch {
			case limit < 1, limit == 1000:
				require.Len(t, batches, 1)
			case limit == 1:
				require.Len(t, batches, 702)
			}
		})
	}
}

func TestBatchesSplitByBytes(t *testing.T) {
	p := newProfile(1)
	for i := range 6000 {
		name := fmt.Sprintf("%s%d", strings.Repeat("very::long::", 150), i)
		frame := &model.Frame{Address: uint64(i), Lines: []model.Line{{Function: &model.Function{Name: name}}}}
		p.Samples = append(p.Samples, model.Sample{ThreadID: 1, Frames: []*model.Frame{frame}, Values: []int64{1}})
	}
	batches := newTestBuilder().Batches([]*model.Profile{p}, 0)
	require.Greater(t, len(batches), 2)
	samples := 0
	for i, batch := range batches {
		requireValid(t, batch)
		samples += batch.SampleCount()
		size := wireSize(t, batch)
		require.Less(t, size, MaxBatchBytes+4096)
		if i < len(batches)-1 {
			require.Greater(t, size, MaxBatchBytes*3/4, "not split more than needed")
		}
	}
	require.Equal(t, 6000, samples)
}

// TestBatchesTakeAtLeastOne has a resource that is over the limit by itself.
func TestBatchesTakeAtLeastOne(t *testing.T) {
	p := newProfile(1)
	p.Process.Attributes = map[string]string{"huge": strings.Repeat("x", MaxBatchBytes)}
	p.Samples = make([]model.Sample, 3)
	for i := range p.Samples {
		p.Samples[i] = model.Sample{ThreadID: uint32(i + 1), Values: []int64{1}}
	}
	batches := newTestBuilder().Batches([]*model.Profile{p, p}, 1)
	require.Len(t, batches, 6)
}

func TestSizeIsAnUpperBound(t *testing.T) {
	extreme := full()
	extreme.Period = -1
	extreme.Samples[0].Values = []int64{-1, -1 << 63}
	extreme.Samples[0].Frames[1].Address = 1<<64 - 1
	extreme.Samples[0].Frames[1].Lines[0].Line = -1
	for name, in := range map[string][]*model.Profile{
		"nothing": nil,
		"full":    {full()},
		"extreme": {extreme},
		"load":    load(t, 50, 1000, 30),
		"large":   load(t, 5, 20000, 60),
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestBuilder()
			b.begin()
			for _, p := range in {
				b.add(p, 0, 1<<30, 1<<30)
			}
			estimate := b.msg.size + b.dict.size
			size := wireSize(t, b.end())
			require.GreaterOrEqual(t, estimate, size)
			if len(in) > 1 {
				require.Less(t, estimate, 2*size)
			}
		})
	}
}

// wireSize is the length of p in protobuf.
func wireSize(t *testing.T, p pprofile.Profiles) int {
	raw, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(p)
	require.NoError(t, err)
	return len(raw)
}
