// SPDX-License-Identifier: Apache-2.0

// Package e2e runs the built distribution from outside, as a user does. Its tests are behind the build tag e2e, since they
// need bin/otelcol-ebpf and bin/demo-load: `make e2e` builds both first.
package e2e // import "github.com/otelcol-ebpf/ebpfreceiver/internal/distribution/e2e"
