// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/nettest"
)

// sharing runs tests, then ends the observers that they share.
type sharing struct{ *testing.M }

func (s sharing) Run() int {
	code := s.M.Run()
	if err := endAll(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func TestMain(m *testing.M) {
	nettest.Main()
	kernel.ShareTypes()
	goleak.VerifyTestMain(sharing{m})
}
