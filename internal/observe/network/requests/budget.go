// SPDX-License-Identifier: Apache-2.0

package requests

import "github.com/otelcol-ebpf/ebpfreceiver/internal/observe"

// timesFree is the ratio of what a process may hold to what is free: a single process may hold eight ninths of the budget.
const timesFree = 8

// budget is memory that processes share by a dynamic threshold: each may hold timesFree times as much as is free. So some memory is always
// free, however much the processes hold that began earlier, and no process gets more than another one that requests as much.
type budget struct {
	most, used uint64
	held       map[observe.SubjectKey]uint64
}

func newBudget(most uint64) budget { return budget{most: most, held: map[observe.SubjectKey]uint64{}} }

// take reserves bytes for a process and releases the given ones. It returns false and releases nothing if the process may not have them.
func (b *budget) take(who observe.SubjectKey, bytes, given uint64) bool {
	used, own := b.used-given, b.held[who]-given
	if free := b.most - min(used, b.most); bytes > given && (bytes > free || own+bytes > timesFree*free) {
		return false
	}
	b.used, b.held[who] = used+bytes, own+bytes
	return true
}

// give releases bytes of a process.
func (b *budget) give(who observe.SubjectKey, bytes uint64) {
	b.used -= bytes
	if b.held[who] -= bytes; b.held[who] == 0 {
		delete(b.held, who)
	}
}
