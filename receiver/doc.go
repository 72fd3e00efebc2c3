// SPDX-License-Identifier: Apache-2.0

//go:generate go tool -modfile=../internal/tools/go.mod mdatagen metadata.yaml
// What mdatagen would build metrics with does not compile where there are histograms; internal/pdata builds them.
//go:generate rm internal/metadata/generated_metrics.go internal/metadata/generated_metrics_test.go

// Package receiver is what the Collector sees of ebpfreceiver: the factory, the
// configuration and the life cycle of the component type "ebpf".
package receiver
