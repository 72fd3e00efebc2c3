// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/aptkernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

const consoleText = `
KERNELTEST KERNEL 6.1.0-56
KERNELTEST BEGIN internal/kernel
=== RUN   TestA
--- PASS: TestA (0.00s)
=== RUN   TestB
    b_test.go:3: no fentry
--- SKIP: TestB (0.00s)
`

const consoleEnd = `
KERNELTEST END internal/kernel exit=0
KERNELTEST RESULT ok=1 failed=0
`

// reported returns the verdict on a console and what is printed of it.
func reported(t *testing.T, console string, bootErr error) (bool, string) {
	res, err := guest.ReadConsole(strings.NewReader(console), func() {})
	require.NoError(t, err)
	var out strings.Builder
	img := aptkernel.Image{Kernel: aptkernel.Kernels[1], Package: "linux-image-6.1.0-56-cloud-amd64"}
	ok := report(&out, options{packages: []string{"internal/kernel"}, dir: "/k"}, img, res, bootErr, 3*time.Second)
	return ok, out.String()
}

func TestReportOfGoodRun(t *testing.T) {
	ok, text := reported(t, consoleText+consoleEnd, nil)
	require.True(t, ok, text)
	require.Contains(t, text, "kernel 6.1: 6.1.0-56, linux-image-6.1.0-56-cloud-amd64, in 3s\n")
	require.Contains(t, text, "skipped TestB: no fentry\n")
	require.Contains(t, text, "kernel 6.1: 1 passed, 0 failed, 1 skipped: ok\n")
}

func TestReportOfBadRuns(t *testing.T) {
	ok, text := reported(t, consoleText+"=== RUN   TestC\n    c_test.go:9: 1 != 2\n--- FAIL: TestC (0.01s)\n"+consoleEnd, nil)
	require.False(t, ok)
	require.Contains(t, text, "FAIL TestC\n      | c_test.go:9: 1 != 2\n")

	ok, text = reported(t, consoleText+"Kernel panic - not syncing\n", nil)
	require.False(t, ok)
	require.Contains(t, text, "whole console: /k/console-6.1.log")
	require.Contains(t, text, "| Kernel panic - not syncing\n")

	ok, text = reported(t, consoleText+consoleEnd, errors.New("running QEMU: killed"))
	require.False(t, ok)
	require.Contains(t, text, "error: running QEMU: killed\n")

	ok, text = reported(t, "", nil)
	require.False(t, ok)
	require.Contains(t, text, "release unknown")
}
