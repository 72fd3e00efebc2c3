// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// SelectorConfig selects processes: all fields that are set must match. Patterns
// are RE2, unanchored, except Exe, a glob on the full path.
type SelectorConfig = process.Selector
