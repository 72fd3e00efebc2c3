// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// entry is a frame in the cache, with room for its usual single line.
type entry struct {
	frame    model.Frame
	line     [1]model.Line
	function uint64   // key of the function, 0 when there is none
	more     []uint64 // keys of the functions that the first was inlined into
	cause    cause

	pending   bool   // its lines, and where it has none its name, may come later
	refused   bool   // they could not be asked for now
	unsettled uint32 // how often it was given out, pending and without a name
}

// What one cached value is taken to cost: itself and its part of a map.
const (
	entryBytes    = int64(unsafe.Sizeof(entry{})) + 32
	functionBytes = int64(unsafe.Sizeof(model.Function{})) + 32
	fileNameBytes = 48
)

// bytes is what the entry holds.
func (e *entry) bytes() int64 {
	if len(e.more) == 0 {
		return entryBytes
	}
	return entryBytes + int64(cap(e.more))*8 + int64(cap(e.frame.Lines))*int64(unsafe.Sizeof(model.Line{}))
}

// generation is what was used since some moment.
type generation struct {
	frames    map[uint64]*entry
	functions map[uint64]*model.Function
	files     map[string]string
	bytes     int64
}

func (g *generation) putFrame(addr uint64, e *entry) {
	if g.frames == nil {
		g.frames = make(map[uint64]*entry)
	}
	g.frames[addr] = e
	g.bytes += e.bytes()
}

func (g *generation) putFunction(key uint64, f *model.Function) {
	if g.functions == nil {
		g.functions = make(map[uint64]*model.Function)
	}
	g.functions[key] = f
	g.bytes += costOf(f)
}

func costOf(f *model.Function) int64 {
	n := functionBytes + int64(len(f.SystemName))
	if f.Name != f.SystemName {
		n += int64(len(f.Name))
	}
	return n
}

// frameCache remembers the frames and functions of one binary in two
// generations: what is not used while the young one fills goes with the old.
// A frame in the young generation has its function there too.
type frameCache struct {
	young, old generation
}

func (c *frameCache) bytes() int64 { return c.young.bytes + c.old.bytes }

// get finds the frame at an address of the binary, nil when there is none.
func (c *frameCache) get(addr uint64) *entry {
	if e := c.young.frames[addr]; e != nil {
		return e
	}
	if c.old.frames == nil {
		return nil
	}
	return c.promote(addr)
}

// promote takes a frame over from the old generation.
func (c *frameCache) promote(addr uint64) *entry {
	e := c.old.frames[addr]
	if e == nil {
		return nil
	}
	delete(c.old.frames, addr)
	c.old.bytes -= e.bytes()
	c.young.putFrame(addr, e)
	if e.function != 0 {
		c.functionFor(e.function)
	}
	for _, key := range e.more {
		c.functionFor(key)
	}
	return e
}

func (c *frameCache) put(addr uint64, e *entry) { c.young.putFrame(addr, e) }

// replace puts a frame in the place of another of the same address, if that is there still.
func (c *frameCache) replace(old, e *entry) bool {
	addr := old.frame.Address
	if c.get(addr) != old {
		return false
	}
	c.young.bytes -= old.bytes()
	c.young.putFrame(addr, e)
	return true
}

// functionFor finds a function by its key, nil when it is not known.
func (c *frameCache) functionFor(key uint64) *model.Function {
	if f := c.young.functions[key]; f != nil {
		return f
	}
	f := c.old.functions[key]
	if f != nil {
		delete(c.old.functions, key)
		c.old.bytes -= costOf(f)
		c.young.putFunction(key, f)
	}
	return f
}

func (c *frameCache) putFunction(key uint64, f *model.Function) { c.young.putFunction(key, f) }

// fileName gives all functions of one source file the same string.
func (c *frameCache) fileName(name string) string {
	if known, ok := c.young.files[name]; ok {
		return known
	}
	if c.young.files == nil {
		c.young.files = make(map[string]string)
	}
	c.young.files[name] = name
	c.young.bytes += fileNameBytes + int64(len(name))
	return name
}

// rotate drops the old generation and tells how many frames that were.
func (c *frameCache) rotate() (frames int) {
	frames = len(c.old.frames)
	c.old, c.young = c.young, generation{}
	return frames
}

// reset drops everything and tells how many frames that were.
func (c *frameCache) reset() (frames int) {
	frames = len(c.old.frames) + len(c.young.frames)
	c.old, c.young = generation{}, generation{}
	return frames
}
