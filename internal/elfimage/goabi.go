// SPDX-License-Identifier: Apache-2.0

package elfimage

// RegisterABI reports whether functions surely take their arguments in
// registers (ABIInternal): tables of Go 1.18 and newer. That of Go 1.17, which
// does on amd64, cannot be told from that of Go 1.16.
func (t *GoTable) RegisterABI() bool {
	return t.version == MagicGo118 || t.version == MagicGo120
}
