// SPDX-License-Identifier: Apache-2.0

package network

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// MonitorsName is the name of the kind that reads requests for policies.
const MonitorsName observe.Kind = "http_monitors"

// Monitors describes the kind that reads requests for policies where no configured kind does, see [observe.RequestSource]. It exports nothing.
var Monitors = &observe.Descriptor{Name: MonitorsName, Scope: 1 << 4, TracksSockets: true}

// monitorInterval is how often ended connections and requests are forgotten.
const monitorInterval = 10 * time.Second

// MonitorPlan is what the kind http_monitors does. It observes the processes that the policies' targets match.
type MonitorPlan struct {
	observe.Common
	paths any // *Paths, which only platforms with an engine have
}

var _ observe.Plan = (*MonitorPlan)(nil)

// NewMonitorPlan returns a plan of the kind.
func NewMonitorPlan() *MonitorPlan {
	return &MonitorPlan{Common: observe.Common{ReportInterval: monitorInterval}}
}

// Kind implements [observe.Plan].
func (*MonitorPlan) Kind() observe.Kind { return MonitorsName }

// Needs implements [observe.Plan].
func (*MonitorPlan) Needs() observe.Needs { return observe.Needs{Mappings: true} }
