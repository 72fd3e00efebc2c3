// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// monitors are the options of what policies see of requests where the kind network does
// not show them.
type monitors struct{ selectors []process.Selector }

// monitorInterval is how often what has ended is forgotten.
const monitorInterval = 10 * time.Second

var _ Options = (*monitors)(nil)

func (o *monitors) kind() observe.Kind            { return observe.Monitors }
func (o *monitors) targets() []process.Selector   { return o.selectors }
func (o *monitors) reportInterval() time.Duration { return monitorInterval }
func (o *monitors) takesStacks() bool             { return false }
func (o *monitors) samples() bool                 { return false }
func (o *monitors) followsMappings() bool         { return true }
func (o *monitors) untargeted() Options           { return &monitors{} }
