// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// requestsKey distinguishes the counts of requests of a server.
type requestsKey struct {
	pid    int
	scheme string // url.scheme
}

// countRequests counts the requests that servers answered according to a file of OTLP JSON lines. Metrics are cumulative: the last line
// that has a process counts for it.
func countRequests(path string) (map[requestsKey]uint64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the exported metrics: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	counts := map[requestsKey]uint64{}
	lines := bufio.NewReader(file)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return counts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s, line %d: %w", path, n, err)
		}
		metrics, err := (&pmetric.JSONUnmarshaler{}).UnmarshalMetrics(line)
		if err != nil {
			return nil, fmt.Errorf("reading %s, line %d: %w", path, n, err)
		}
		for key, count := range requestCounts(metrics) {
			counts[key] = count
		}
	}
}

// requestCounts are the counts of one message.
func requestCounts(metrics pmetric.Metrics) map[requestsKey]uint64 {
	counts := map[requestsKey]uint64{}
	for _, of := range metrics.ResourceMetrics().All() {
		pid, _ := of.Resource().Attributes().Get("process.pid")
		for _, scope := range of.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				if metric.Name() != serverDurations || metric.Type() != pmetric.MetricTypeHistogram {
					continue
				}
				for _, point := range metric.Histogram().DataPoints().All() {
					counts[requestsKey{int(pid.Int()), textOf(point.Attributes(), "url.scheme")}] += point.Count()
				}
			}
		}
	}
	return counts
}

func textOf(attributes pcommon.Map, key string) string {
	value, ok := attributes.Get(key)
	if !ok {
		return ""
	}
	return value.Str()
}
