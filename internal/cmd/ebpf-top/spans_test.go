// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpans(t *testing.T) {
	type add struct{ at, length int }
	tests := map[string]struct {
		in      []add
		covered time.Duration
		end     int
		count   int
	}{
		"none":       {},
		"same":       {in: []add{{0, 5}, {0, 5}}, covered: 5, end: 5, count: 1},
		"touching":   {in: []add{{0, 5}, {5, 5}}, covered: 10, end: 10, count: 1},
		"backwards":  {in: []add{{5, 5}, {0, 5}}, covered: 10, end: 10, count: 1},
		"gap":        {in: []add{{0, 5}, {100, 5}}, covered: 10, end: 105, count: 2},
		"inside":     {in: []add{{0, 10}, {2, 3}}, covered: 10, end: 10, count: 1},
		"around":     {in: []add{{2, 3}, {0, 10}}, covered: 10, end: 10, count: 1},
		"joins two":  {in: []add{{0, 2}, {8, 2}, {1, 8}}, covered: 10, end: 10, count: 1},
		"between":    {in: []add{{0, 1}, {8, 2}, {4, 1}}, covered: 4, end: 10, count: 3},
		"zero width": {in: []add{{3, 0}}, covered: 0, end: 3, count: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var s spans
			for _, a := range tt.in {
				s.add(start.Add(time.Duration(a.at)*time.Second), time.Duration(a.length)*time.Second)
			}
			require.Equal(t, tt.covered*time.Second, s.covered())
			require.Len(t, s.list, tt.count)
			if tt.count > 0 {
				require.Equal(t, start.Add(time.Duration(tt.end)*time.Second), s.end())
			}
		})
	}
}

func TestSpansAreBounded(t *testing.T) {
	var s spans
	for i := range 3 * maxSpans {
		s.add(start.Add(time.Duration(i)*time.Minute), time.Second)
	}
	require.Len(t, s.list, maxSpans)
}
