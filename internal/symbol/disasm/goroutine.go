// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"bytes"
	enc "encoding/binary"
	"errors"
)

var errNoGoroutine = errors.New("the function does not begin with the check of its stack as Go before 1.17 writes it")

// The beginning of functions of Go on x86-64 until Go 1.17: they need their goroutine to check the stack, and threads have it at a distance
// from the base of their segment FS which the linker decides. The distance follows, of 4 bytes with its sign.
var (
	goroutineOf    = []byte{0x64, 0x48, 0x8b, 0x0c, 0x25} // mov %fs:DISTANCE,%rcx
	goroutineOfPIE = []byte{0x48, 0xc7, 0xc1}             // mov $DISTANCE,%rcx
	thenOfPIE      = []byte{0x64, 0x48, 0x8b, 0x09}       // mov %fs:(%rcx),%rcx
)

// GoroutineAt returns the distance in bytes from the base of a thread's segment FS at which a function of Go before 1.17 on x86-64 reads its
// goroutine.
func GoroutineAt(code []byte) (int64, error) {
	for _, form := range []struct{ begins, then []byte }{{goroutineOf, nil}, {goroutineOfPIE, thenOfPIE}} {
		rest, ok := bytes.CutPrefix(code, form.begins)
		if ok && len(rest) >= 4 && bytes.HasPrefix(rest[4:], form.then) {
			return int64(int32(enc.LittleEndian.Uint32(rest))), nil //nolint:gosec // with its sign
		}
	}
	return 0, errNoGoroutine
}
