// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/elfsym"
)

// warmGo reads the blocks that the names and lines of the wanted addresses of a Go binary need, so that none of them must be read from a disk
// while the lock is held. Naming returns the errors.
func (j *nameJob) warmGo(t *elfimage.GoTable) {
	j.lane.pages.Forget(j.bin.serial)
	r := elfsym.Reader{Cache: j.lane.pages, Owner: j.bin.serial, Image: j.image}
	for _, w := range j.wanted {
		if t.Covers(w.addr) {
			warmGoAt(t, r, w.addr, j.golang.inline)
		}
	}
}

// warmGoAt reads what one address needs; inline: the table has inlined calls.
func warmGoAt(t *elfimage.GoTable, r elfimage.Reader, addr uint64, inline bool) {
	info, err := t.Info(r, t.Find(addr))
	if err != nil {
		return
	}
	goFunction(t, r, info) //nolint:errcheck // it is read again
	c := elfsym.GoCall{Table: t, Reader: r, Info: info}
	c.Place(addr)
	index, err := t.Value(r, info.Inlined, info, addr)
	for calls := 0; inline && err == nil && index >= 0 && calls < elfsym.MaxInlinedGo; calls++ {
		var call elfimage.GoInlined
		if call, err = t.InlinedCall(r, info, index); err != nil {
			return
		}
		t.InlinedName(r, call) //nolint:errcheck // it is read again
		addr = info.Entry + uint64(call.ParentPC)
		c.Place(addr)
		index, err = t.Value(r, info.Inlined, info, addr)
	}
}
