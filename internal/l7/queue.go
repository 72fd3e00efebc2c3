// SPDX-License-Identifier: Apache-2.0

package l7

import "unsafe"

// Queue holds what waits for its answer, in order, and uses its places again: pushing allocates only while the queue is longer than it
// ever was. What finds no place is counted in its order, so that answers after it are not taken for those of others.
type Queue[T any] struct {
	places []*T
	first  int
	length int
	limit  int
	unkept int // pushed after the last that is kept
}

// NewQueue makes a queue of up to limit places.
func NewQueue[T any](limit int) Queue[T] { return Queue[T]{limit: limit} }

// Len is the number of those that wait, kept or not.
func (q *Queue[T]) Len() int { return q.length + q.unkept }

// Push returns the place of a new last one, as its last owner left it; or nil where it is only counted.
func (q *Queue[T]) Push() *T {
	if q.unkept > 0 || q.length == q.limit {
		q.unkept++
		return nil
	}
	if q.length == len(q.places) {
		q.grow()
	}
	q.length++
	return q.At(q.length - 1)
}

// grow makes room for another place: the places are turned so that the first is at the front.
func (q *Queue[T]) grow() {
	turned := make([]*T, 0, len(q.places)+1)
	turned = append(append(turned, q.places[q.first:]...), q.places[:q.first]...)
	q.places, q.first = append(turned, new(T)), 0
}

// At is the i-th of those that are kept, the first being 0, or nil where there is none.
func (q *Queue[T]) At(i int) *T {
	if i >= q.length {
		return nil
	}
	return q.places[q.wrap(q.first+i)]
}

// wrap is the index of a place that is counted on past the end: a division takes longer than all else here.
func (q *Queue[T]) wrap(i int) int {
	if i >= len(q.places) {
		return i - len(q.places)
	}
	return i
}

// Front is the first, or nil where there is none or it was only counted.
func (q *Queue[T]) Front() *T { return q.At(0) }

// Pop removes the first.
func (q *Queue[T]) Pop() {
	switch {
	case q.length > 0:
		q.first = q.wrap(q.first + 1)
		q.length--
	case q.unkept > 0:
		q.unkept--
	}
}

// Clear removes all.
func (q *Queue[T]) Clear() { q.length, q.unkept = 0, 0 }

// Held is the number of bytes of memory held for the places, without what they refer to.
func (q *Queue[T]) Held() int {
	var place T
	return cap(q.places)*int(unsafe.Sizeof(&place)) + len(q.places)*int(unsafe.Sizeof(place))
}

// Places calls f for each place, used or not: for those who count memory.
func (q *Queue[T]) Places(f func(*T)) {
	for _, place := range q.places {
		f(place)
	}
}
