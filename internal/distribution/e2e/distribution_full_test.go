// SPDX-License-Identifier: Apache-2.0

//go:build e2e && full && linux

package e2e

const (
	// distribution is the program in bin whose promises are tested.
	distribution = "otelcol-ebpf"
	// all says that it has every component that the documentation names.
	all = true
)

// components are those of the distribution, by section.
var components = map[string][]string{
	"receivers":  {"ebpf", "otlp", "host_metrics"},
	"processors": {"batch", "filter", "k8s_attributes", "memory_limiter", "resource", "resource_detection", "transform"},
	"exporters":  {"debug", "file", "kafka", "nop", "otlp_grpc", "otlp_http", "prometheus", "prometheus_remote_write"},
	"extensions": {"bearertokenauth", "file_storage", "health_check", "pprof", "zpages"},
	"providers":  {"env", "file", "http", "yaml"},
}
