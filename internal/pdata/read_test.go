// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func TestFold(t *testing.T) {
	p := roundTrip(t, newTestBuilder().Profiles([]*model.Profile{full()}))
	var stacks [][]string
	var values []int64
	require.NoError(t, Fold(p, func(s FoldedSample) error {
		name, ok := s.Resource.Get(KeyServiceName)
		require.True(t, ok)
		require.Equal(t, "shop", name.Str())
		require.Equal(t, model.ValueType{Type: "space", Unit: "bytes"}, s.Profile.PeriodType)
		require.EqualValues(t, 524288, s.Profile.Period)
		require.Equal(t, start, s.Profile.Start)
		require.Equal(t, 5*time.Second, s.Profile.Duration)
		require.Equal(t, map[string]any{"ebpf.task.id": "task-1"}, s.Profile.Attributes.AsRaw())
		id, ok := s.Attributes.Get(KeyThreadID)
		require.True(t, ok)
		require.EqualValues(t, 43, id.Int())
		var stack []string
		for _, f := range s.Stack {
			stack = append(stack, f.String())
		}
		stacks = append(stacks, stack)
		values = append(values, s.Value)
		return nil
	}))
	want := []string{"/usr/bin/checkout!0x2000", "main.outer", "main.inner", "do_syscall_64"}
	require.Equal(t, [][]string{want, nil, want, nil}, stacks)
	require.Equal(t, []int64{100, 7, 2, 0}, values)
}

func TestFoldStops(t *testing.T) {
	p := newTestBuilder().Profiles([]*model.Profile{full()})
	calls := 0
	require.NoError(t, Fold(p, func(FoldedSample) error { calls++; return ErrStop }))
	require.Equal(t, 1, calls)
	bad := errors.New("bad")
	require.ErrorIs(t, Fold(p, func(FoldedSample) error { return bad }), bad)
}

func TestFoldedFrameString(t *testing.T) {
	require.Equal(t, "f", FoldedFrame{Function: "f", Mapping: "m", Address: 1}.String())
	require.Equal(t, "m!0x1f", FoldedFrame{Mapping: "m", Address: 31}.String())
	require.Equal(t, "0x1f", FoldedFrame{Address: 31}.String())
}

func TestFoldTimestampsOnly(t *testing.T) {
	p := pprofile.NewProfiles()
	profile := p.ResourceProfiles().AppendEmpty().ScopeProfiles().AppendEmpty().Profiles().AppendEmpty()
	profile.Samples().AppendEmpty().TimestampsUnixNano().Append(1, 2, 3)
	require.NoError(t, Fold(p, func(s FoldedSample) error {
		require.EqualValues(t, 3, s.Value)
		return nil
	}))
}

func TestFoldBadReferences(t *testing.T) {
	tests := map[string]struct {
		spoil func(d pprofile.ProfilesDictionary, p pprofile.Profile)
		want  string
	}{
		"sample type": {
			func(_ pprofile.ProfilesDictionary, p pprofile.Profile) { p.SampleType().SetTypeStrindex(-1) },
			"sample type: string index -1 is not in [0, 37)",
		},
		"period type": {
			func(_ pprofile.ProfilesDictionary, p pprofile.Profile) { p.PeriodType().SetUnitStrindex(99) },
			"period type: string index 99 is not in [0, 37)",
		},
		"profile attribute": {
			func(_ pprofile.ProfilesDictionary, p pprofile.Profile) { p.AttributeIndices().Append(99) },
			"attribute index 99 is not in [0, 12)",
		},
		"attribute key": {
			func(d pprofile.ProfilesDictionary, _ pprofile.Profile) { d.AttributeTable().At(1).SetKeyStrindex(99) },
			"sample 0: attribute 1: string index 99 is not in [0, 37)",
		},
		"too many attributes": {
			func(_ pprofile.ProfilesDictionary, p pprofile.Profile) {
				p.Samples().At(0).AttributeIndices().FromRaw(make([]int32, maxFoldedAttributes+1))
			},
			"sample 0: 129 attributes are more than 128",
		},
		"stack": {
			func(_ pprofile.ProfilesDictionary, p pprofile.Profile) { p.Samples().At(0).SetStackIndex(2) },
			"sample 0: stack index 2 is not in [0, 2)",
		},
		"location": {
			func(d pprofile.ProfilesDictionary, _ pprofile.Profile) {
				d.StackTable().At(1).LocationIndices().SetAt(1, 4)
			},
			"sample 0: stack 1: location index 4 is not in [0, 4)",
		},
		"mapping": {
			func(d pprofile.ProfilesDictionary, _ pprofile.Profile) { d.LocationTable().At(2).SetMappingIndex(2) },
			"sample 0: stack 1: location 2: mapping index 2 is not in [0, 2)",
		},
		"location attribute": {
			func(d pprofile.ProfilesDictionary, _ pprofile.Profile) {
				d.LocationTable().At(2).AttributeIndices().Append(-5)
			},
			"sample 0: stack 1: location 2: attribute index -5 is not in [0, 12)",
		},
		"function": {
			func(d pprofile.ProfilesDictionary, _ pprofile.Profile) {
				d.LocationTable().At(2).Lines().At(1).SetFunctionIndex(8)
			},
			"sample 0: stack 1: location 2: line 1: function index 8 is not in [0, 4)",
		},
		"endless stack": {
			func(d pprofile.ProfilesDictionary, _ pprofile.Profile) {
				long := make([]int32, maxFoldedFrames+1)
				d.StackTable().At(1).LocationIndices().FromRaw(long)
			},
			"sample 0: stack 1: has more than 8192 frames",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := roundTrip(t, newTestBuilder().Profiles([]*model.Profile{full()}))
			tt.spoil(p.Dictionary(), p.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0))
			err := Fold(p, func(FoldedSample) error { return nil })
			require.EqualError(t, err, "reading resource 0, scope 0, profile 0: "+tt.want)
		})
	}
}
