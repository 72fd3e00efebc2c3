// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

func TestFoldJSON(t *testing.T) {
	raw, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(newTestBuilder().Profiles([]*model.Profile{full()}))
	require.NoError(t, err)
	var values []int64
	require.NoError(t, FoldJSON(raw, func(s FoldedSample) error {
		values = append(values, s.Value)
		return nil
	}))
	require.Equal(t, []int64{100, 7, 2, 0}, values)

	err = FoldJSON(raw[:len(raw)/2], func(FoldedSample) error { return nil })
	require.ErrorContains(t, err, "parsing OTLP JSON of ")
}

func FuzzFoldJSON(f *testing.F) {
	raw, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(newTestBuilder().Profiles([]*model.Profile{full()}))
	require.NoError(f, err)
	f.Add(raw)
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"samples":[{"stackIndex":1}]}]}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := FoldJSON(raw, func(FoldedSample) error { return nil }); err != nil {
			require.NotEmpty(t, err.Error())
		}
	})
}
