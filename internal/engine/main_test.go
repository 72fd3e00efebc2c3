// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

func TestMain(m *testing.M) {
	nettest.Main()
	kernel.ShareTypes()
	goleak.VerifyTestMain(m)
}
