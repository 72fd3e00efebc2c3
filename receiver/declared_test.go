// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// declared is metadata.yaml, as far as it is about metrics and events.
type declared struct {
	Attributes map[string]struct {
		Type string
		Enum []string
	}
	Metrics map[string]declaredMetric
	Events  map[string]struct{ Attributes []string }
}

type declaredMetric struct {
	Description, Unit string
	Sum               *struct {
		ValueType   string `yaml:"value_type"`
		Monotonic   bool
		Temporality string `yaml:"aggregation_temporality"`
	}
	Gauge *struct {
		ValueType string `yaml:"value_type"`
	}
	Histogram *struct {
		ValueType   string `yaml:"value_type"`
		Temporality string `yaml:"aggregation_temporality"`
	}
	Attributes []string
}

func readDeclared(t *testing.T) declared {
	t.Helper()
	text, err := os.ReadFile("metadata.yaml")
	require.NoError(t, err)
	var d declared
	require.NoError(t, yaml.Unmarshal(text, &d))
	return d
}

// instrument is what a metric is declared as.
func (m declaredMetric) instrument() model.Instrument {
	switch {
	case m.Gauge != nil:
		return model.Gauge
	case m.Histogram != nil:
		return model.Distribution
	case m.Sum.Monotonic:
		return model.Sum
	}
	return model.UpDownSum
}

// requirePoint holds that a point's attributes are those that its metric is declared with.
func (d declared) requirePoint(t *testing.T, metric string, attributes map[string]any) {
	t.Helper()
	d.requireAttributes(t, metric, d.Metrics[metric].Attributes, attributes)
}

// requireAttributes holds that attributes of something are among those that it is declared with, and of their types.
func (d declared) requireAttributes(t *testing.T, name string, declared []string, attributes map[string]any) {
	t.Helper()
	for key, value := range attributes {
		require.Contains(t, declared, key, name)
		a := d.Attributes[key]
		switch a.Type {
		case "int":
			require.IsType(t, int64(0), value, key)
		case "double":
			require.IsType(t, 0.0, value, key)
		case "bool":
			require.IsType(t, false, value, key)
		default:
			require.IsType(t, "", value, key)
			require.True(t, a.Enum == nil || slices.Contains(a.Enum, value.(string)), "%s is %q, declared are %q", key, value, a.Enum)
		}
	}
}
