// SPDX-License-Identifier: Apache-2.0

// Package e2e runs a built distribution from outside, as a user does. Its tests are behind build tags, since they need programs in bin: with e2e
// alone the quick-start distribution and demo-load, which `make e2e` builds first, with e2e and full the whole distribution (`make test-distribution`).
package e2e // import "github.com/otelcol-ebpf/ebpfreceiver/internal/distribution/e2e"
