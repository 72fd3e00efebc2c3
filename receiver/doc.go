// SPDX-License-Identifier: Apache-2.0

//go:generate go tool -modfile=../internal/tools/go.mod mdatagen metadata.yaml
// What mdatagen would build metrics with does not compile where there are histograms, nor then what it would build events
// with; internal/pdata builds both.
//go:generate rm internal/metadata/generated_metrics.go internal/metadata/generated_metrics_test.go internal/metadata/generated_logs.go internal/metadata/generated_logs_test.go

// Package receiver is what the Collector sees of ebpfreceiver: the factory, the
// configuration and the life cycle of the component type "ebpf".
package receiver
