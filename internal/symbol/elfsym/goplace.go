// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// MaxInlinedGo bounds the depth of inlined calls at one address.
const MaxInlinedGo = 256

// GoCall is a function of a Go binary that is being named.
type GoCall struct {
	Table  *elfimage.GoTable
	Reader elfimage.Reader
	Info   elfimage.GoFunc
}

// Place returns the file and the line of an address, as far as they are known.
func (c GoCall) Place(addr uint64) (file string, line int64) {
	if number, err := c.Table.Value(c.Reader, c.Info.PCFile, c.Info, addr); err == nil {
		file, _ = c.Table.Filename(c.Reader, c.Info, number) //nolint:errcheck // a place without a file still has a line
	}
	if n, err := c.Table.Value(c.Reader, c.Info.PCLine, c.Info, addr); err == nil && n > 0 {
		line = int64(n)
	}
	return file, line
}

// OrTruncated is the error, or that of a truncated file where a name is empty and there is none.
func OrTruncated(err error) error {
	if err == nil {
		return elfimage.ErrTruncated
	}
	return err
}
