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

// toldKey is what requests of a server are counted apart by.
type toldKey struct {
	pid    int
	scheme string // url.scheme
}

// told counts the requests that servers were told to have answered, in a file of OTLP JSON lines: metrics are cumulative,
// so that the last line in which a process is counts for it.
func told(path string) (map[toldKey]uint64, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the exported metrics: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	counts := map[toldKey]uint64{}
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
func requestCounts(metrics pmetric.Metrics) map[toldKey]uint64 {
	counts := map[toldKey]uint64{}
	for _, of := range metrics.ResourceMetrics().All() {
		pid, _ := of.Resource().Attributes().Get("process.pid")
		for _, scope := range of.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				if metric.Name() != serverDurations || metric.Type() != pmetric.MetricTypeHistogram {
					continue
				}
				for _, point := range metric.Histogram().DataPoints().All() {
					counts[toldKey{int(pid.Int()), textOf(point.Attributes(), "url.scheme")}] += point.Count()
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
