// SPDX-License-Identifier: Apache-2.0

package monitor

import "github.com/otelcol-ebpf/ebpfreceiver/internal/model"

// HTTPErrorRate is the part of the requests to a server that ended in a second whose status is 500 to 599, or that have no response since the
// connection or the stream has ended, in per cent.
var HTTPErrorRate = &Descriptor{
	Name: "http_error_rate", Unit: "per cent", Max: 100,
	Doc: "of all requests to the process as a server that ended in that second: those with a status of 500 to 599, and those without a response",
	Metric: model.Descriptor{
		Name: "ebpf.http.error_rate", Unit: "1", Instrument: model.Gauge,
		Description: "Part of the process's responses as an HTTP server whose status was 500 to 599, in the last second with any.",
	},
	Scale: 0.01,
	Requests: func(r Requests) (sum float64, n uint64) {
		return 100 * float64(r.Errors), r.Known
	},
}
