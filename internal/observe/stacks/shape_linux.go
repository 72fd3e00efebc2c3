// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// Shape is what a kind of observation makes of entries.
type Shape struct {
	Kind observe.Kind
	// Sums are the values of a sample.
	Sums []Sum
	// PeriodType is empty, and Period 0, where the kind has none.
	PeriodType model.ValueType
	Period     time.Duration
	// Describe, if not nil, completes the sample that is made of the first of equal
	// entries.
	Describe func(*Entry, *model.Sample)
}

// Sum is one value of a sample: what it counts, and where entries have it.
type Sum struct {
	model.ValueType
	Of func(*Entry) uint64
}

// Count is how many observations the entry stands for.
func Count(e *Entry) uint64 { return uint64(e.Count) }

// First and Second are the entry's two sums.
func First(e *Entry) uint64  { return e.Values[0] }
func Second(e *Entry) uint64 { return e.Values[1] }

func (s *Shape) types() []model.ValueType {
	types := make([]model.ValueType, 0, len(s.Sums))
	for _, sum := range s.Sums {
		types = append(types, sum.ValueType)
	}
	return types
}

func (s *Shape) values(e *Entry) []int64 {
	values := make([]int64, 0, len(s.Sums))
	for _, sum := range s.Sums {
		values = append(values, int64(sum.Of(e)))
	}
	return values
}

// addTo adds the entry to a sample's values.
func (s *Shape) addTo(values []int64, e *Entry) {
	for i, sum := range s.Sums {
		values[i] += int64(sum.Of(e))
	}
}
