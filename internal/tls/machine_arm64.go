// SPDX-License-Identifier: Apache-2.0

package tls

import "debug/elf"

// machine is what binaries must be for.
const machine = elf.EM_AARCH64
