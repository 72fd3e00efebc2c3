// SPDX-License-Identifier: Apache-2.0

// Package e2e holds what a user is promised against the built distribution: it
// starts bin/otelcol-ebpf, looks at what comes out of it, and stops it. Without a
// binary that is up to date the tests are skipped, unless E2E_REQUIRED is set.
package e2e

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}
