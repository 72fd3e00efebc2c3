// SPDX-License-Identifier: Apache-2.0

//go:build e2e && !full && linux

package e2e

const (
	// distribution is the program in bin whose promises are tested.
	distribution = "otelcol-ebpf-quick"
	// all says that it has every component that the documentation names.
	all = false
)

// components are those of the distribution, by section.
var components = map[string][]string{
	"receivers":  {"ebpf", "otlp"},
	"processors": {"batch", "filter", "memory_limiter", "resource", "transform"},
	"exporters":  {"debug", "file", "nop", "otlp_grpc", "otlp_http", "prometheus"},
	"extensions": {"file_storage", "health_check"},
	"providers":  {"env", "file", "yaml"},
}
