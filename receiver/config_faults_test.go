// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/confmap"
)

// TestLongListsAreRefused checks that a list which is too long is refused.
func TestLongListsAreRefused(t *testing.T) {
	refuseLongLists(t, func(string, time.Duration, time.Duration) {})
}

// TestMeasureLongListsAreRefusedAtOnce checks that it is before its elements are decoded and compared: in some times the time that it takes to copy
// what is configured, which the Collector does before and while it decodes.
func TestMeasureLongListsAreRefusedAtOnce(t *testing.T) {
	refuseLongLists(t, func(list string, copied, took time.Duration) {
		require.Less(t, took, 4*copied+time.Second, "%s; a copy took %s", list, copied)
	})
}

// refuseLongLists calls took with each list, how long a copy of it took, and how long it was until it was refused.
func refuseLongLists(t *testing.T, took func(list string, copied, took time.Duration)) {
	t.Helper()
	repeat := func(n int, element func(i int) any) []any {
		list := make([]any, n)
		for i := range list {
			list[i] = element(i)
		}
		return list
	}
	policy := func(i int) any {
		return map[string]any{
			"name": fmt.Sprint("p", i), "run": []any{"on_cpu"},
			"when": []any{map[string]any{"monitor": "process_cpu", "threshold": 1, "period": "10s", "count": 1}},
		}
	}
	withPaths := policy(0).(map[string]any)
	rule := withPaths["when"].([]any)[0].(map[string]any)
	rule["monitor"], rule["uri_list"] = "http_error_rate", repeat(100_000, func(i int) any { return fmt.Sprint("/", i) })
	names := map[string]any{}
	for i := range 10_000 {
		names[fmt.Sprint("k", i)] = "v"
	}
	for want, values := range map[string]map[string]any{
		"policies: 10000 elements are not allowed: at most 256":                       {"policies": repeat(10_000, policy)},
		"policies[0]::when[0]::uri_list: 100000 elements are not allowed: at most 64": {"policies": []any{withPaths}},
		"targets::include: 20000 elements are not allowed: at most 1024": {"targets": map[string]any{
			"include": repeat(20_000, func(i int) any { return map[string]any{"pid": i + 1} }),
		}},
		"targets::include[0]::set: 10000 elements are not allowed: at most 128": {"targets": map[string]any{"include": []any{map[string]any{"comm": "a", "set": names}}}},
	} {
		conf, start := confmap.NewFromStringMap(values), time.Now()
		require.NotEmpty(t, conf.ToStringMap())
		copied := time.Since(start)
		start = time.Now()
		err := createDefaultConfig().(*Config).Unmarshal(conf)
		took(want, copied, time.Since(start))
		require.EqualError(t, err, want)
	}
}

// TestAllFaultsAtOnce checks that no kind of fault hides another one.
func TestAllFaultsAtOnce(t *testing.T) {
	conf := confmap.NewFromStringMap(map[string]any{
		"foo":     1,
		"targets": map[string]any{"scan_interval": "soon", "include": []any{map[string]any{"container_id": 1234567890, "pid": -3}}},
		"limits":  map[string]any{"cpu_percent": 200, "memory_mib": "much"},
	})
	err := createDefaultConfig().(*Config).Unmarshal(conf)
	for _, fault := range []string{"foo", "targets::scan_interval", "targets::include[0]::container_id", "targets::include[0]::pid", "limits::cpu_percent", "limits::memory_mib"} {
		require.ErrorContains(t, err, fault)
	}
}
