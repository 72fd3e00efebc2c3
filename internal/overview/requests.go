// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
)

// Request is what is known of the requests for one endpoint of a service.
type Request struct {
	// Side is server or client, or the protocol where the metric has one side only.
	Side, Service, Endpoint string
	// Rate is in requests per second, Errors of them from 0 to 1.
	Rate, Errors float64
	Count        int64
	// Statuses are response status codes or types of errors, the most frequent first.
	Statuses []Status
	// Median and P95 are in seconds; Timed is false where there is no histogram to estimate them from.
	Median, P95 float64
	Timed       bool
}

// Status is how often requests ended with a status.
type Status struct {
	Code  string
	Count int64
}

type requestKey struct{ side, service, endpoint string }

// requestRow has the differences of all series of an endpoint.
type requestRow struct {
	slots    slots
	statuses []requestStatus
}

// requestStatus is a difference's status.
type requestStatus struct {
	time   time.Time
	code   string
	failed bool
	count  int64
}

// requestSide is the side of each metric of requests.
var requestSide = map[string]string{
	"http.server.request.duration":        "server",
	"http.client.request.duration":        "client",
	"rpc.server.call.duration":            "server",
	"rpc.client.call.duration":            "client",
	"dns.lookup.duration":                 "dns",
	"db.client.operation.duration":        "client",
	"ebpf.db.server.operation.duration":   "server",
	"messaging.client.operation.duration": "client",
}

// endpoint names what was asked for, by the attributes that the semantic conventions have for each protocol.
func endpoint(a pcommon.Map) string {
	if text(a, "otel.metric.overflow") != "" {
		return "(all others)"
	}
	for _, keys := range [][]string{
		{"rpc.method"},
		{"dns.question.name"},
		{"db.system.name", "db.operation.name", "db.collection.name"},
		{"messaging.system", "messaging.operation.name", "messaging.destination.name"},
		{"http.request.method", "http.route"},
	} {
		var parts []string
		for _, k := range keys {
			if v := text(a, k); v != "" {
				parts = append(parts, v)
			}
		}
		if len(parts) > 0 {
			return strings.Join(parts, " ")
		}
	}
	return "(unknown)"
}

// status is how a request ended, and whether that is an error.
func status(a pcommon.Map) (code string, failed bool) {
	failure := text(a, "error.type")
	for _, k := range []string{"http.response.status_code", "rpc.response.status_code", "db.response.status_code"} {
		if v := text(a, k); v != "" {
			return v, failure != ""
		}
	}
	if failure != "" {
		return failure, true
	}
	return "ok", false
}

// addHistogram counts a point of a histogram.
func (o *Overview) addHistogram(id, service, metric string, p point, a pcommon.Map) {
	side := requestSide[metric]
	if side == "" && metric != "ebpf.tcp.rtt" {
		return
	}
	difference, ok := o.advance(id, p)
	if !ok || difference.count == 0 {
		return
	}
	if side == "" {
		if row := o.connection(service, a); row != nil {
			row.rtt.add(difference)
		}
		return
	}
	key := requestKey{side, service, endpoint(a)}
	row := o.requests[key]
	if row == nil {
		if len(o.requests) >= maxRows {
			o.Excess++
			return
		}
		row = &requestRow{}
		o.requests[key] = row
	}
	row.slots.add(difference)
	code, failed := status(a)
	row.statuses = append(row.statuses, requestStatus{difference.time, code, failed, difference.count})
}

// Requests returns all endpoints of the window, the most frequent first, then by name.
func (o *Overview) Requests() []Request {
	var out []Request
	for key, row := range o.requests {
		if row.prune(o.begin()); len(row.slots) == 0 {
			continue
		}
		sum := row.slots.total()
		r := Request{Side: key.side, Service: key.service, Endpoint: key.endpoint, Count: sum.count}
		r.Rate = float64(sum.count) / o.covered().Seconds()
		r.P95, r.Timed = sum.quantile(0.95)
		r.Median, _ = sum.quantile(0.5)
		r.Statuses, r.Errors = row.ends(sum.count)
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Request) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Side, a.Side), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return out
}

// prune drops what ended before the window.
func (r *requestRow) prune(begin time.Time) {
	r.slots.prune(begin)
	r.statuses = slices.DeleteFunc(r.statuses, func(s requestStatus) bool { return !s.time.After(begin) })
}

// ends returns how requests ended, and the share of errors.
func (r *requestRow) ends(all int64) ([]Status, float64) {
	var failed int64
	byCode := map[string]int64{}
	for _, s := range r.statuses {
		byCode[s.code] += s.count
		if s.failed {
			failed += s.count
		}
	}
	var out []Status
	for _, code := range slices.Sorted(maps.Keys(byCode)) {
		out = append(out, Status{code, byCode[code]})
	}
	slices.SortStableFunc(out, func(a, b Status) int { return cmp.Compare(b.Count, a.Count) })
	return out, float64(failed) / float64(max(1, all))
}

// String is such as 503×4.
func (s Status) String() string { return fmt.Sprintf("%s×%d", s.Code, s.Count) }
