// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// HTTPAvgResponseTime is the mean duration, in milliseconds, of the requests to a server that ended in a second: until the end of the response,
// or of the connection or the stream if there is none.
var HTTPAvgResponseTime = &Descriptor{
	Name: "http_avg_response_time", Unit: "ms",
	Doc: "mean duration of the requests that ended in that second, from the first byte of the request to the last of the response",
	Metric: model.Descriptor{
		Name: "ebpf.http.avg_response_time", Unit: "s", Instrument: model.Gauge,
		Description: "Mean time that the process took as an HTTP server for the requests that it answered in the last second with any.",
	},
	Scale: 0.001,
	Requests: func(r Requests) (sum float64, n uint64) {
		return float64(r.Took) / float64(time.Millisecond), r.Timed
	},
}
