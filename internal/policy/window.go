// SPDX-License-Identifier: Apache-2.0

package policy

import "math/bits"

const (
	// spare is how many seconds a window keeps beyond its period: those that
	// have begun and are not evaluated yet.
	spare = 2
	// wordBits is the size of a word of marks.
	wordBits = 64
	// LateBy is for how many seconds what belongs to an earlier one is still added to it, and for how
	// many requests are counted before the next evaluation.
	LateBy = 16
)

// window holds the last seconds of one value for one rule: a mark for each second whose value has
// reached the threshold, and the values themselves of the last few, so that what comes
// late changes the value of its second. Seconds without a value have no mark.
type window struct {
	threshold float64
	period    int32
	set       int32 // marks
	// head is the newest second with a value; 0: there is none.
	head  int64
	taken int64 // the newest second that last has returned the value of
	marks []uint64
	cells []cell
	// aged is the value of the newest second with a mark that has left cells.
	aged float64
}

// cell is the value of one second: sum/n, and none where n is 0.
type cell struct{ sum, n float64 }

func (c cell) value() float64 { return c.sum / c.n }

// makeWindow makes a window that keeps the values of the last kept seconds, which are spare
// at least: a second that has begun is evaluated after it has ended.
func makeWindow(threshold float64, period, kept int) window {
	capacity := period + max(spare, kept)
	return window{
		threshold: threshold, period: int32(period),
		marks: make([]uint64, (capacity+wordBits-1)/wordBits), cells: make([]cell, min(kept, capacity)),
	}
}

// bytes is the memory that a window takes.
func (w *window) bytes() int { return 96 + 8*len(w.marks) + 16*len(w.cells) }

// capacity is for how many seconds there are marks.
func (w *window) capacity() int64 { return int64(len(w.marks)) * wordBits }

// put sets the value of a second.
func (w *window) put(second int64, value float64) bool {
	return w.change(second, func(c *cell) { *c = cell{sum: value, n: 1} })
}

// add adds to what the value of a second is the mean of.
func (w *window) add(second int64, sum, n float64) bool {
	return w.change(second, func(c *cell) { c.sum, c.n = c.sum+sum, c.n+n })
}

// change changes the value of a second; false: that is too long ago.
func (w *window) change(second int64, how func(*cell)) bool {
	w.advance(second)
	if second <= w.head-int64(len(w.cells)) {
		return false
	}
	c := &w.cells[place(second, int64(len(w.cells)))]
	how(c)
	w.mark(second, c.n > 0 && c.value() >= w.threshold)
	return true
}

// advance adds a second; what exceeds the capacity of the window is dropped.
func (w *window) advance(second int64) {
	if second <= w.head {
		return
	}
	kept, capacity := int64(len(w.cells)), w.capacity()
	first := w.head + 1
	if w.head == 0 || second-w.head > capacity+kept {
		w.forget()
		w.head = second
		return
	}
	for s := first; s <= second; s++ {
		c := &w.cells[place(s, kept)] // of the second s-kept
		if w.marked(s - kept) {
			w.aged = c.value()
		}
		*c = cell{}
		w.head = s
		if w.set > 0 {
			w.mark(s, false) // of the second s-capacity
		}
	}
}

// forget empties the window.
func (w *window) forget() {
	clear(w.marks)
	clear(w.cells)
	w.set = 0
}

// place is where a second is in a ring.
func place(second, size int64) int64 { return ((second % size) + size) % size }

func (w *window) marked(second int64) bool {
	i := place(second, w.capacity())
	return w.set > 0 && w.marks[i/wordBits]>>(i%wordBits)&1 == 1
}

func (w *window) mark(second int64, reached bool) {
	i := place(second, w.capacity())
	word, bit := &w.marks[i/wordBits], uint64(1)<<(i%wordBits)
	switch was := *word&bit != 0; {
	case reached && !was:
		*word |= bit
		w.set++
	case !reached && was:
		*word &^= bit
		w.set--
	}
}

// reached is how many of the last period seconds up to now have reached the threshold.
func (w *window) reached(now int64) int {
	w.advance(now)
	if w.set == 0 {
		return 0
	}
	n := 0
	for s := now - int64(w.period) + 1; s <= now; {
		i := place(s, w.capacity())
		take := min(wordBits-i%wordBits, now-s+1)
		n += bits.OnesCount64(w.marks[i/wordBits] >> (i % wordBits) << (wordBits - take))
		s += take
	}
	return n
}

// holds reports whether at least count of the last period seconds up to now have reached
// the threshold.
func (w *window) holds(now int64, count int) bool {
	if int(w.set) < count { // nearly always
		w.advance(now)
		return int(w.set) >= count && w.reached(now) >= count
	}
	return w.reached(now) >= count
}

// current is the value of the newest second up to now that has reached the threshold.
func (w *window) current(now int64) float64 {
	for s := min(now, w.head); s > w.head-int64(len(w.cells)); s-- {
		if w.marked(s) {
			return w.cells[place(s, int64(len(w.cells)))].value()
		}
	}
	return w.aged
}

// last is the value of the newest second up to now that has one and is younger than
// kept seconds, unless last has returned it before.
func (w *window) last(now int64) (value float64, ok bool) {
	for s := min(now, w.head); s > max(w.taken, w.head-int64(len(w.cells))); s-- {
		if c := w.cells[place(s, int64(len(w.cells)))]; c.n > 0 {
			w.taken = s
			return c.value(), true
		}
	}
	return 0, false
}
