// SPDX-License-Identifier: Apache-2.0

//go:generate go tool -modfile=../internal/tools/go.mod mdatagen metadata.yaml

// Package receiver is what the Collector sees of ebpfreceiver: the factory, the
// configuration and the life cycle of the component type "ebpf".
package receiver
