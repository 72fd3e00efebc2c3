// SPDX-License-Identifier: Apache-2.0

package elfimage

import "bytes"

// Reader returns blocks of one file, from memory or from a cache.
type Reader interface {
	// Block returns the bytes from off to the end of some block, at least one.
	// They are valid until the next call.
	Block(off uint64) ([]byte, error)
}

// ReadFull fills buf from off.
func ReadFull(r Reader, buf []byte, off uint64) error {
	for len(buf) > 0 {
		b, err := r.Block(off)
		if err != nil {
			return err
		}
		n := copy(buf, b)
		buf, off = buf[n:], off+uint64(n)
	}
	return nil
}

// ReadText reads the string at off that ends with a zero byte, at limit bytes
// or at the end of the file.
func ReadText(r Reader, off uint64, limit int) (string, error) {
	b, err := r.Block(off)
	if err != nil {
		return "", err
	}
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return string(b[:min(i, limit)]), nil
	}
	long := append(make([]byte, 0, 2*len(b)+64), b...)
	for len(long) < limit {
		b, err = r.Block(off + uint64(len(long)))
		if err != nil {
			break // the file ends here, and with it the string
		}
		if i := bytes.IndexByte(b, 0); i >= 0 {
			long = append(long, b[:i]...)
			break
		}
		long = append(long, b...)
	}
	return string(long[:min(len(long), limit)]), nil
}
