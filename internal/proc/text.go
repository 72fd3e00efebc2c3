// SPDX-License-Identifier: Apache-2.0

package proc

// Device joins major and minor as the C library and the kernel's stat do.
func Device(major, minor uint64) uint64 {
	return (major&0xfff)<<8 | (major&^0xfff)<<32 | minor&0xff | (minor&^0xff)<<12
}

// ParseHex parses up to 16 hexadecimal digits.
func ParseHex(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 16 {
		return 0, false
	}
	var v uint64
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		v = v<<4 | uint64(c)
	}
	return v, true
}

// Clip shortens untrusted text for an error.
func Clip(b []byte) []byte { return b[:min(len(b), 120)] }
