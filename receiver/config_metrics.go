// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
	"github.com/otelcol-ebpf/ebpfreceiver/receiver/internal/metadata"
)

// MetricsConfig is what the metrics of all kinds of observation have in common.
type MetricsConfig struct {
	metadata.MetricsConfig `mapstructure:",squash"`
	// Resource is instance or process: what metrics are added up for.
	Resource string `mapstructure:"resource"`
	// Histograms is explicit or exponential.
	Histograms string `mapstructure:"histograms"`
}

// Values of MetricsConfig.Resource.
const (
	resourceInstance = "instance"
	resourceProcess  = "process"
)

// Values of MetricsConfig.Histograms.
const (
	histogramsExplicit    = "explicit"
	histogramsExponential = "exponential"
)

var histogramForms = []string{histogramsExplicit, histogramsExponential}

var resources = []string{resourceInstance, resourceProcess}

func defaultMetrics() MetricsConfig {
	return MetricsConfig{MetricsConfig: metadata.DefaultMetricsConfig(), Resource: resourceInstance, Histograms: histogramsExplicit}
}

func (c *MetricsConfig) validate(path string) []error {
	return []error{
		setting.OneOf(path+"::resource", c.Resource, resources),
		setting.OneOf(path+"::histograms", c.Histograms, histogramForms),
	}
}
