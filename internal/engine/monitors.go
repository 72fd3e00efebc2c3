// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// monitors are the options of what policies see of requests where the kind network does
// not show them. Whom it observes, the policies' own targets say.
type monitors struct{}

// monitorInterval is how often what has ended is forgotten.
const monitorInterval = 10 * time.Second

var _ Options = (*monitors)(nil)

func (*monitors) kind() observe.Kind            { return observe.Monitors }
func (*monitors) targets() []process.Selector   { return nil }
func (*monitors) reportInterval() time.Duration { return monitorInterval }
func (*monitors) takesStacks() bool             { return false }
func (*monitors) followsMappings() bool         { return true }
func (*monitors) untargeted() Options           { return &monitors{} }
