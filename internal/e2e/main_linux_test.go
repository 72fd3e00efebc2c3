// SPDX-License-Identifier: Apache-2.0

// Package e2e holds what a user is promised against the quick-start distribution: it starts bin/otelcol-ebpf-quick, reads what comes out of it, and
// stops it. Without a binary that is up to date the tests are skipped, unless E2E_REQUIRED is set.
package e2e

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if how := os.Getenv(confinedBy); how != "" {
		fmt.Fprintln(os.Stderr, "running confined:", runConfined(how))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}
