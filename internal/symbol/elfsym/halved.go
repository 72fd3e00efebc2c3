// SPDX-License-Identifier: Apache-2.0

package elfsym

import (
	"errors"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// maxHalvings bounds the passes that fail for one batch: halving the largest batch around two addresses takes 16.
const maxHalvings = 16

// Halve makes the partial table of a batch of addresses. Whether the symbols near them exceed the memory bound depends on the addresses that
// are looked up together: such a batch is halved. The table lacks the addresses that exceed the bound alone, and some is the reason; err is
// set if no address was found.
func Halve(pass func(addrs []uint64) (*Table, error), addrs []uint64) (table *Table, some, err error) {
	found, failed := false, 0
	for batches := [][]uint64{addrs}; len(batches) > 0; {
		batch := batches[len(batches)-1]
		batches = batches[:len(batches)-1]
		t, err := pass(batch)
		switch {
		case err == nil:
			table, found = joined(table, t), true
		case !errors.Is(err, reason.ErrTooLarge):
			return nil, nil, err // of the file: no other batch can succeed
		default:
			some = err
			failed++
			if half := len(batch) / 2; half > 0 && failed <= maxHalvings {
				batches = append(batches, batch[half:], batch[:half])
			}
		}
	}
	if !found {
		return nil, nil, some
	}
	return table, some, nil
}

// joined merges two partial tables of one binary, of which the first may be nil.
func joined(all, t *Table) *Table {
	if all != nil && t != nil {
		t.Merge(all)
	}
	return t
}
