// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Descriptors returns the descriptors of the metrics of this kind. metadata.yaml declares them, with their attributes.
func Descriptors() []*model.Descriptor {
	return append([]*model.Descriptor{
		ioMetric, operationMetric, waitMetric, connectionMetric, dropMetric, rttMetric, retransmitMetric, resetMetric, failureMetric,
	}, protocol.Descriptors()...)
}
