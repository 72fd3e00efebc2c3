// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// addLevels adds a message with the levels of kinds at a time.
func addLevels(t *testing.T, o *Overview, when time.Time, levels map[string]int64) {
	t.Helper()
	all := pmetric.NewMetrics()
	metric := all.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	metric.SetName("ebpf.limit.level")
	points := metric.SetEmptyGauge().DataPoints()
	for kind, level := range levels {
		p := points.AppendEmpty()
		p.Attributes().PutStr("ebpf.limit.kind", kind)
		p.SetTimestamp(pcommon.NewTimestampFromTime(when))
		p.SetIntValue(level)
	}
	line, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(all)
	require.NoError(t, err)
	require.NoError(t, o.AddMetrics(line))
}

// kindsOf are kinds with their levels, as text.
func kindsOf(levels []Level) (list []string) {
	for _, l := range levels {
		list = append(list, fmt.Sprint(l.Kind, " ", l.Level))
	}
	return list
}

// TestReduced holds that kinds count as reduced by their last level, and as long as it is repeated.
func TestReduced(t *testing.T) {
	o := New(start, time.Minute)
	require.Empty(t, o.Reduced())
	addLevels(t, o, at(0), map[string]int64{"on_cpu": 2, "network": 6})
	require.Equal(t, []string{"network 6", "on_cpu 2"}, kindsOf(o.Reduced()))
	addLevels(t, o, at(10), map[string]int64{"on_cpu": 0, "network": 5})
	addLevels(t, o, at(5), map[string]int64{"on_cpu": 3})
	require.Equal(t, []string{"network 5"}, kindsOf(o.Reduced()), "a point that comes late is not the last")
	addLevels(t, o, at(70), map[string]int64{"on_cpu": 1})
	require.Equal(t, []string{"network 5", "on_cpu 1"}, kindsOf(o.Reduced()))
	addLevels(t, o, at(71), map[string]int64{"on_cpu": 1})
	require.Equal(t, []string{"on_cpu 1"}, kindsOf(o.Reduced()), "nothing was said of network for more than a minute")
	for i := range 2 * maxLevels {
		addLevels(t, o, at(72), map[string]int64{fmt.Sprint("kind", i): 1})
	}
	require.Len(t, o.levels, maxLevels)
}
