// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"math"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// sampleKey is the identity of a sample. The number of the profile within the
// message is part of it, so that the map is cleared once a message.
type sampleKey struct {
	profile int32
	stack   int32
	// thread, name, reason and block are attribute indices, 0 for none.
	thread, name, reason, block int32
}

// samples merges the samples of one profile at a time.
type samples struct {
	positions map[sampleKey]int
	keys      []sampleKey
	// values has width values for each of keys.
	values []int64
	width  int
}

func makeSamples() samples {
	return samples{positions: map[sampleKey]int{}}
}

// begin starts a profile with width values per sample.
func (s *samples) begin(width int) {
	s.keys = s.keys[:0]
	s.values = s.values[:0]
	s.width = width
}

// end forgets a whole message.
func (s *samples) end() {
	clear(s.positions)
}

// add merges one sample; values that are missing are 0. It reports whether the
// sample is a new one.
func (s *samples) add(key sampleKey, values []int64) bool {
	at, known := s.positions[key]
	if !known {
		at = len(s.keys)
		s.positions[key] = at
		s.keys = append(s.keys, key)
		for range s.width {
			s.values = append(s.values, 0)
		}
	}
	sum := s.values[at*s.width : (at+1)*s.width]
	for i := range min(len(values), len(sum)) {
		sum[i] = addSaturated(sum[i], values[i])
	}
	return !known
}

// emit writes the samples with their value number column.
func (s *samples) emit(out pprofile.SampleSlice, column int) {
	out.EnsureCapacity(len(s.keys))
	for i, key := range s.keys {
		sample := out.AppendEmpty()
		sample.SetStackIndex(key.stack)
		sample.Values().Append(s.values[i*s.width+column])
		var attrs [4]int32
		n := 0
		for _, index := range [...]int32{key.thread, key.name, key.reason, key.block} {
			if index != 0 {
				attrs[n] = index
				n++
			}
		}
		sample.AttributeIndices().FromRaw(attrs[:n])
	}
}

// threadKey is a thread as samples name it.
type threadKey struct {
	name string
	id   uint32
}

// threadIndices are the attribute indices of a thread, 0 for what is unknown.
type threadIndices struct{ id, name int32 }

// thread resolves the attributes of a thread.
func (d *dictionary) thread(key threadKey) threadIndices {
	if t, ok := d.threads[key]; ok {
		return t
	}
	var t threadIndices
	if key.id != 0 {
		t.id = d.number(KeyThreadID, int64(key.id))
	}
	if key.name != "" {
		t.name = d.text(KeyThreadName, key.name)
	}
	d.threads[key] = t
	return t
}

// sampleKey resolves the identity of a sample of profile number n.
func (d *dictionary) sampleKey(n int32, s *model.Sample) sampleKey {
	t := d.thread(threadKey{s.ThreadName, s.ThreadID})
	key := sampleKey{profile: n, stack: d.stack(s.Frames), thread: t.id, name: t.name}
	if s.Error != model.StackWhole {
		key.reason = d.text(KeyStackError, string(s.Error))
	}
	if s.BlockReason != "" {
		key.block = d.text(KeyBlockReason, string(s.BlockReason))
	}
	return key
}

// addSaturated is a+b, kept within int64.
func addSaturated(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}
