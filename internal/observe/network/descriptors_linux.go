// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// Descriptors are the metrics that this kind has. metadata.yaml declares them, with their attributes.
func Descriptors() []*model.Descriptor {
	return append([]*model.Descriptor{
		ioMetric, operationMetric, waitMetric, connectionMetric, dropMetric, rttMetric, retransmitMetric, resetMetric, failureMetric,
	}, requests.Descriptors()...)
}
