// SPDX-License-Identifier: Apache-2.0

package pdata

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// TestBodies holds what the line of each kind of event says.
func TestBodies(t *testing.T) {
	text := model.Text
	for want, l := range map[string]model.Log{
		"slow: server GET /pay 500 in 1.203s, peer checkout": {Event: "ebpf.request.top", Attributes: []model.Attribute{
			text("http.request.method", "GET"), text("http.route", "/{id}"), model.Int("http.response.status_code", 500), text("error.type", "500"), text("url.path", "/pay"),
			text("ebpf.role", "server"), model.Float("ebpf.request.duration", 1.2034567), text("network.peer.address", "10.0.0.7"), text("service.peer.name", "checkout"), text("ebpf.reason", "slow"),
		}},
		"client GET /x timeout in 12.3ms, peer 10.0.0.7:80": {Event: "ebpf.request", Attributes: []model.Attribute{
			text("http.request.method", "GET"), text("url.path", "/x"), text("error.type", "timeout"), text("ebpf.role", "client"), model.Float("ebpf.request.duration", 0.0123),
			text("network.peer.address", "10.0.0.7"), model.Int("network.peer.port", 80),
		}},
		"client shop.Pay/Do DEADLINE_EXCEEDED in 25.04ms": {Event: "ebpf.request", Attributes: []model.Attribute{
			text("http.request.method", "POST"), text("rpc.method", "shop.Pay/Do"), text("rpc.response.status_code", "DEADLINE_EXCEEDED"),
			model.Int("http.response.status_code", 200), text("ebpf.role", "client"), model.Float("ebpf.request.duration", 0.0250385),
		}},
		"client lookup of AAAA example.com NXDOMAIN in 2ms": {Event: "ebpf.request", Attributes: []model.Attribute{
			text("dns.question.name", "example.com"), text("ebpf.dns.question.type", "AAAA"), text("error.type", "NXDOMAIN"), text("ebpf.role", "client"), model.Float("ebpf.request.duration", 0.002),
		}},
		"sample of response: server GET /a b 200": {Event: "ebpf.request.sample", Attributes: []model.Attribute{
			text("http.request.method", "GET"), text("url.path", "/a\nb"), model.Int("http.response.status_code", 200), text("ebpf.role", "server"), text("ebpf.sample", "response"),
		}},
		"sample of syscall write": {Event: "ebpf.request.sample", Attributes: []model.Attribute{text("ebpf.sample", "syscall"), text("ebpf.syscall", "write"), text("ebpf.role", "server")}},
		"policy slow: http_error_rate 50 (threshold 5) /pay, process_cpu 93.5 (threshold 80); task 7": {Event: "ebpf.profiling.triggered", Attributes: []model.Attribute{
			text("ebpf.policy", "slow"), text("ebpf.task.id", "7"),
			model.Causes("ebpf.causes", []model.Cause{{Monitor: "http_error_rate", Threshold: 5, Value: 50, Path: "/pay"}, {Monitor: "process_cpu", Threshold: 80, Value: 93.5}}),
		}},
		"off_cpu started for 30s; policy slow": {Event: "ebpf.task.started", Attributes: []model.Attribute{
			text("ebpf.task.id", "7"), text("ebpf.task.kind", "off_cpu"), text("ebpf.policy", "slow"), model.Float("ebpf.task.duration", 30),
		}},
		"off_cpu finished after 30s, 1200 samples (expired)": {Event: "ebpf.task.finished", Attributes: []model.Attribute{
			text("ebpf.task.kind", "off_cpu"), text("ebpf.task.end.reason", "expired"), model.Float("ebpf.task.duration", 30), model.Int("ebpf.task.samples", 1200),
		}},
		"ebpf.other": {Event: "ebpf.other"},
	} {
		got, _ := bodyOf(&l, nil)
		require.Equal(t, want, got)
	}
}

// TestLongBody checks that a long path leaves the outcome legible, and that the bound holds whatever the texts are.
func TestLongBody(t *testing.T) {
	path := model.Text("url.path", strings.Repeat("/ä\xff", 500))
	l := model.Log{Attributes: []model.Attribute{model.Text("http.request.method", "GET"), path, model.Int("http.response.status_code", 503), model.Text("ebpf.role", "server")}}
	body, room := bodyOf(&l, nil)
	require.LessOrEqual(t, len(body), maxBody)
	require.True(t, utf8.ValidString(body))
	require.True(t, strings.HasSuffix(body, " 503"), body)
	l.Attributes[1] = model.Text("rpc.method", strings.Repeat("ä", 500))
	body, _ = bodyOf(&l, room)
	require.LessOrEqual(t, len(body), maxBody)
	require.True(t, utf8.ValidString(body))
}
