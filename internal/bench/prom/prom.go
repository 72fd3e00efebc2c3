// SPDX-License-Identifier: Apache-2.0

// Package prom reads the text format in which the Collector serves its own metrics
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
package prom

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxLine bounds a line of the text.
const maxLine = 1 << 20

// Series is one line: a metric with labels and a value.
type Series struct {
	Labels map[string]string
	Value  float64
}

// Metrics are the series by the metric's name without the suffixes _total, _seconds and _bytes, which depend on the
// exporter's configuration.
type Metrics map[string][]Series

// Parse reads the metrics whose names begin with prefix.
func Parse(r io.Reader, prefix string) (Metrics, error) {
	out := Metrics{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		name, series, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("parsing the metric line %.200q: %w", line, err)
		}
		out[name] = append(out[name], series)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return out, nil
}

func parseLine(line string) (string, Series, error) {
	end := strings.IndexAny(line, "{ ")
	if end < 0 {
		return "", Series{}, fmt.Errorf("it has no value")
	}
	series := Series{Labels: map[string]string{}}
	name, rest := line[:end], line[end:]
	if rest[0] == '{' {
		var err error
		if rest, err = parseLabels(rest[1:], series.Labels); err != nil {
			return "", Series{}, err
		}
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return "", Series{}, fmt.Errorf("it has no value")
	}
	var err error
	series.Value, err = strconv.ParseFloat(fields[0], 64)
	return plain(name), series, err
}

// parseLabels reads name="value" pairs up to the closing brace and returns what follows it.
func parseLabels(text string, to map[string]string) (string, error) {
	for {
		text = strings.TrimLeft(text, ", ")
		if rest, ok := strings.CutPrefix(text, "}"); ok {
			return rest, nil
		}
		name, rest, ok := strings.Cut(text, "=")
		if !ok {
			return "", fmt.Errorf("labels: no closing brace")
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", fmt.Errorf("label %s: %w", name, err)
		}
		if to[name], err = strconv.Unquote(quoted); err != nil {
			return "", fmt.Errorf("label %s: %w", name, err)
		}
		text = rest[len(quoted):]
	}
}

func plain(name string) string {
	name = strings.TrimSuffix(name, "_total")
	return strings.TrimSuffix(strings.TrimSuffix(name, "_seconds"), "_bytes")
}

// Sum adds the values of the series of a metric that have the label; an empty label takes all.
func (m Metrics) Sum(name, label, value string) float64 {
	var sum float64
	for _, s := range m[name] {
		if label == "" || s.Labels[label] == value {
			sum += s.Value
		}
	}
	return sum
}
