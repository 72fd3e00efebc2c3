// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestList checks that each protocol has what the others use of it, and that nothing is there twice.
func TestList(t *testing.T) {
	require.Subset(t, Names(), Parsed())
	names, numbers, metrics, reasons := map[string]bool{}, map[uint8]bool{}, map[string]bool{}, map[string]bool{}
	once := func(name string, seen map[string]bool) {
		require.NotEmpty(t, name)
		require.False(t, seen[name], name)
		seen[name] = true
	}
	for _, name := range Names() {
		once(name, names)
	}
	for _, d := range All() {
		require.Same(t, d, Find(d.Name))
		require.False(t, numbers[d.Number], d.Name)
		numbers[d.Number] = true
		require.NotEmpty(t, d.Operations, d.Name)
		require.NotEmpty(t, d.Protocol(), d.Name)
	}
	for _, s := range Operations() {
		require.NotNil(t, s.SeriesAttributes)
		require.NotEmpty(t, s.Descriptors())
		for role, m := range s.Metrics {
			if m != nil && m.Duration != nil {
				require.NotNil(t, m.Untimed, "of role %d: it counts what the duration does not", role)
			}
		}
	}
	for _, d := range Descriptors() {
		once(d.Name, metrics)
		require.NotEmpty(t, d.Unit, d.Name)
		require.NotEmpty(t, d.Description, d.Name)
		require.Contains(t, []model.Instrument{model.Distribution, model.Sum}, d.Instrument, d.Name)
	}
	for _, d := range Dictionaries() {
		once(d.Reason, reasons)
		require.Positive(t, d.Most)
		require.NotNil(t, d.Of)
	}
	require.Nil(t, Find("gopher"))
}
