// SPDX-License-Identifier: Apache-2.0

package tracecontext

import (
	"encoding/base64"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	segment = "56a5e1c519ae4c76a2b8b11d92cead7f.12.16563474296430001"
	// What the Collector's receiver for SkyWalking makes of them.
	segmentAsTrace = "56a5e1c515ae4c7613e51e7cf616977f"
	spanTwo        = "4740ffb9e3b8db09" // of the segment
	spanFour       = "f01d50d88b60e109" // of its UUID alone
)

func sw8(trace, segment string, span int) []byte {
	text := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	return fmt.Appendf(nil, "1-%s-%s-%d-%s-%s-%s-%s", text(trace), text(segment), span, text("a"), text("b"), text("c"), text("d"))
}

// TestSkyWalkingAsContext checks that identifiers are those that the Collector's receiver for SkyWalking makes.
func TestSkyWalkingAsContext(t *testing.T) {
	for _, c := range []struct {
		trace, segment string
		span           int
		want           string
	}{
		{segment, segment, 2, segmentAsTrace + " " + spanTwo + " sampled"},
		{"de5980b8-fce3-4a37-aab9-b4ac3af7eedd", segment[:32], 4, "de5980b8fce34a37aab9b4ac3af7eedd " + spanFour + " sampled"},
		{"not-of-this-form", segment, 0, ""},
		{segment, "short", 0, ""},
		{segment, segment[:33], 0, ""},
		{segment, segment + ".1", 0, ""},
		{segment, segment[:35] + ".x", 0, ""},
		{"00000000-0000-0000-0000-000000000000", segment, 0, ""},
	} {
		sky, ok := SW8(sw8(c.trace, c.segment, c.span))
		require.True(t, ok)
		require.Equal(t, c.want, text(sky.Context()), "%+v", c)
	}
}

// TestOf holds which of several contexts counts.
func TestOf(t *testing.T) {
	at := func(values map[string]string) [][]byte {
		list := make([][]byte, len(Fields()))
		for name, value := range values {
			i := slices.Index(Fields(), name)
			require.GreaterOrEqual(t, i, 0)
			list[i] = []byte(value)
		}
		return list
	}
	sky := string(sw8(segment, segment, 2))
	for _, c := range []struct {
		values map[string]string
		want   string
	}{
		{nil, ""},
		{map[string]string{"traceparent": "00-" + trace + "-" + span + "-00", "b3": segmentAsTrace + "-" + spanTwo, "sw8": sky}, trace + " " + span + " not sampled"},
		{map[string]string{"traceparent": "none", "b3": segmentAsTrace + "-" + spanTwo, "x-b3-traceid": trace, "x-b3-spanid": span}, segmentAsTrace + " " + spanTwo + " unknown"},
		{map[string]string{"x-b3-traceid": trace, "x-b3-spanid": span, "x-b3-sampled": "1", "sw8": sky}, trace + " " + span + " sampled"},
		{map[string]string{"sw8": sky}, segmentAsTrace + " " + spanTwo + " sampled"},
		{map[string]string{"sw8": "0"}, ""},
	} {
		require.Equal(t, c.want, text(Of(at(c.values))), c.values)
	}
	w3c := at(map[string]string{"traceparent": "00-" + trace + "-" + span + "-01"})
	require.Zero(t, testing.AllocsPerRun(100, func() { Of(w3c) }))
}

func FuzzSkyWalkingAsContext(f *testing.F) {
	f.Add([]byte(segment), []byte(segment), uint32(2))
	f.Add([]byte("de5980b8-fce3-4a37-aab9-b4ac3af7eedd"), []byte(segment[:32]), uint32(0))
	f.Fuzz(func(t *testing.T, trace, segment []byte, span uint32) {
		c, ok := SkyWalking{TraceID: trace, SegmentID: segment, SpanID: int(span >> 1)}.Context()
		if ok {
			require.NotZero(t, c.TraceID)
			require.NotZero(t, c.SpanID)
		}
	})
}
