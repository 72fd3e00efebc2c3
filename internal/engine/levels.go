// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

var limitLevelDescriptor = &model.Descriptor{
	Name: "ebpf.limit.level", Unit: "1", Instrument: model.Gauge,
	Description: "Steps by which a kind is reduced to keep to the limits; from the first step on.",
}

// LimitDescriptors are those of the metrics about the limits.
func LimitDescriptors() []*model.Descriptor { return []*model.Descriptor{limitLevelDescriptor} }
