// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"cmp"
	"slices"
)

// top are the requests that took longest, shortest first.
type top struct{ requests []*Request }

// insert inserts a request behind those that took no longer.
func (t *top) insert(r *Request) {
	at, _ := slices.BinarySearchFunc(t.requests, r, func(x, of *Request) int { return cmp.Or(cmp.Compare(x.took, of.took), -1) })
	t.requests = slices.Insert(t.requests, at, r)
}

func (t *top) removeFirst() { t.requests = slices.Delete(t.requests, 0, 1) }
