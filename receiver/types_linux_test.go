// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package receiver

import "github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"

func init() { kernel.ShareTypes() }
