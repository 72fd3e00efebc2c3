// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package lifecycle

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

func TestMain(m *testing.M) {
	kernel.ShareTypes()
	goleak.VerifyTestMain(m)
}
