// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	"debug/elf"
	"fmt"
)

// GoRelease is the minor number of the first release of Go 1 that writes tables of functions like those of a program.
type GoRelease int

// Releases, as far as tables differ between them.
const (
	GoUnknown GoRelease = 0 // the program has no table: it is not written in Go
	Go12      GoRelease = 2
	Go116     GoRelease = 16
	Go117     GoRelease = 17
	Go118     GoRelease = 18
	Go120     GoRelease = 20
)

// releases are those of headers.
var releases = map[uint32]GoRelease{MagicGo12: Go12, MagicGo116: Go116, MagicGo118: Go118, MagicGo120: Go120}

// String names the releases that have such tables.
func (r GoRelease) String() string {
	switch r {
	case GoUnknown:
		return "no Go"
	case Go12:
		return "Go 1.15 or older"
	case Go116, Go117:
		return fmt.Sprintf("Go 1.%d", int(r))
	case Go118:
		return "Go 1.18 or 1.19"
	}
	return fmt.Sprintf("Go 1.%d or newer", int(r))
}

// Registers reports whether functions have their arguments in registers (ABIInternal), else on the stack.
func (r GoRelease) Registers(machine elf.Machine) bool {
	return r >= Go118 || r == Go117 && machine == elf.EM_X86_64
}
