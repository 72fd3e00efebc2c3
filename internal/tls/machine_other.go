// SPDX-License-Identifier: Apache-2.0

//go:build !amd64 && !arm64

package tls

import "debug/elf"

// machine is what binaries must be for: there is no such machine.
const machine = elf.EM_NONE
