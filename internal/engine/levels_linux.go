// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// limitLevel returns the metric of a kind's level, nil while the kind was never reduced.
func (e *Engine) limitLevel(kind observe.Kind, now time.Time) *model.Metrics {
	level, reduced := e.levels.Load(kind)
	if !reduced {
		return nil
	}
	return &model.Metrics{Time: now, Metrics: []model.Metric{{Descriptor: limitLevelDescriptor, Points: []model.Point{{
		Attributes: []model.Attribute{model.Text("ebpf.limit.kind", string(kind))}, Int: int64(level.(int)),
	}}}}}
}
