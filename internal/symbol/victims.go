// SPDX-License-Identifier: Apache-2.0

package symbol

import "container/heap"

// victim is a binary whose tables may be evicted for others.
type victim struct {
	binary *binary
	idle   bool // its tables were not needed for long
	bytes  int64
}

// victims is a heap of them, the first to be evicted on top: the least recently used, then the largest. They are listed once for each table
// that needs memory: a process may map tens of thousands of files, and the symbolizer is locked meanwhile.
type victims []victim

var _ heap.Interface = (*victims)(nil)

// victimsOf lists the tables that may be evicted for those of a binary.
func (s *Symbolizer) victimsOf(b *binary, need int64) victims {
	var list victims
	now := s.now()
	for o := range s.all {
		v := victim{binary: o, bytes: o.tableBytes()}
		if o == b || v.bytes == 0 {
			continue
		}
		v.idle = now.Sub(o.needed) >= idleTable
		if v.idle || v.bytes >= smallerBy*need {
			list = append(list, v)
		}
	}
	heap.Init(&list)
	return list
}

func (v victims) Len() int      { return len(v) }
func (v victims) Swap(i, j int) { v[i], v[j] = v[j], v[i] }

func (v victims) Less(i, j int) bool {
	switch {
	case v[i].idle && v[j].idle:
		return v[i].binary.needed.Before(v[j].binary.needed)
	case v[i].idle != v[j].idle:
		return v[i].idle
	}
	return v[i].bytes > v[j].bytes
}

// Push implements heap.Interface.
func (v *victims) Push(x any) { *v = append(*v, x.(victim)) }

// Pop implements heap.Interface.
func (v *victims) Pop() any {
	last := len(*v) - 1
	x := (*v)[last]
	*v = (*v)[:last]
	return x
}
