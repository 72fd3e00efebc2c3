// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestForms checks that maps by forms are those that are put key by key, in the same order and as large, whichever lists came before.
func TestForms(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	value := func(key string) model.Attribute {
		switch n := chance.Int64N(3); chance.IntN(7) {
		case 0:
			return model.Int(key, n)
		case 1:
			return model.Bool(key, n == 0)
		case 2:
			return model.Float(key, float64(n))
		case 3:
			return model.Lines(key, "a\n\xff")
		case 4:
			return model.List(key, "a", strconv.FormatInt(n, 10))
		case 5:
			return model.Causes(key, []model.Cause{{Monitor: "process_cpu", Threshold: float64(n)}})
		default:
			return model.Text(key, "\x1b"+strconv.FormatInt(n, 10))
		}
	}
	var lists [2 * formsKept][]string
	for i := range lists {
		for n := range chance.IntN(6) {
			lists[i] = append(lists[i], string(rune('a'+n+chance.IntN(2)*10)))
		}
	}
	var f forms
	for range 5000 {
		var attributes []model.Attribute
		for _, key := range lists[min(chance.IntN(len(lists)), chance.IntN(len(lists)))] {
			attributes = append(attributes, value(key))
		}
		want, got := pcommon.NewMap(), pcommon.NewMap()
		size := putAttributes(want, attributes)
		require.Equal(t, size, f.put(got, attributes), attributes)
		require.Equal(t, keysOf(want), keysOf(got))
		require.Equal(t, want.AsRaw(), got.AsRaw())
	}
	require.Len(t, f.known, formsKept)
}

func keysOf(m pcommon.Map) (keys []string) {
	for key := range m.All() {
		keys = append(keys, key)
	}
	return keys
}

// TestFormsShareNothing checks that a consumer may change a map that was made by a form.
func TestFormsShareNothing(t *testing.T) {
	var f forms
	attributes := []model.Attribute{model.Text("a", "x"), model.List("b", "y", "z"), model.Int("c", 1)}
	first, second := pcommon.NewMap(), pcommon.NewMap()
	f.put(first, attributes)
	first.PutStr("a", "changed")
	list, _ := first.Get("b")
	list.Slice().At(0).SetStr("changed")
	first.Remove("c")
	f.put(second, attributes)
	require.Equal(t, map[string]any{"a": "x", "b": []any{"y", "z"}, "c": int64(1)}, second.AsRaw())
}

// TestKeyThatComesTwice checks that the last value counts, as without forms, and that no value moves to another key.
func TestKeyThatComesTwice(t *testing.T) {
	var f forms
	for n := range int64(3) {
		out := pcommon.NewMap()
		f.put(out, []model.Attribute{model.Int("a", 0), model.Int("a", n), model.Int("b", 7)})
		require.Equal(t, map[string]any{"a": n, "b": int64(7)}, out.AsRaw())
	}
}

// TestAllocationsOfLogs checks that a log takes its record, its list of attributes, a value for each of them, and its body with the text of it.
func TestAllocationsOfLogs(t *testing.T) {
	const logs = 200
	list := make([]model.Log, logs)
	for i := range list {
		list[i].Attributes = append(slices.Clone(requestAttributes), model.Int("n", int64(i)))
	}
	builder, in := NewLogsBuilder("scope", "1"), []*model.Logs{{Process: &model.Process{}, Logs: list}}
	allocs := testing.AllocsPerRun(10, func() { builder.Batches(in) }) / logs
	require.Less(t, allocs, 2+float64(len(list[0].Attributes))+2+1)
}
