// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"unsafe"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// entry is a frame in the cache, with space for its usual single line.
type entry struct {
	frame    model.Frame
	line     [1]model.Line
	function uint64   // key of the function, 0 when there is none
	more     []uint64 // keys of the functions into which the first was inlined
	cause    reason.Cause

	pending   bool   // its lines, and if it has none its name, may come later
	refused   bool   // they could not be requested now
	unsettled uint32 // how often it was returned, pending and without a name
}

// Assumed sizes of one cached value: itself and its part of a map.
const (
	entryBytes    = int64(unsafe.Sizeof(entry{})) + 32
	functionBytes = int64(unsafe.Sizeof(model.Function{})) + 32
	fileNameBytes = 48
)

// bytes is the memory of the entry.
func (e *entry) bytes() int64 {
	if len(e.more) == 0 {
		return entryBytes
	}
	return entryBytes + int64(cap(e.more))*8 + int64(cap(e.frame.Lines))*int64(unsafe.Sizeof(model.Line{}))
}

// generation has the frames and functions in use since some moment.
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
	if old := g.frames[addr]; old != nil {
		g.bytes -= old.bytes()
	}
	g.frames[addr] = e
	g.bytes += e.bytes()
}

func (g *generation) putFunction(key uint64, f *model.Function) {
	if g.functions == nil {
		g.functions = make(map[uint64]*model.Function)
	}
	if old := g.functions[key]; old != nil { // keys of inlined functions are hashes
		g.bytes -= costOf(old)
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

// frameCache caches the frames and functions of one binary in two generations: what is not used while the young one fills is dropped with the
// old. A frame in the young generation has its function there too.
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

// promote moves a frame over from the old generation.
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

// replace replaces a frame by another of the same address, if it is still cached.
func (c *frameCache) replace(old, e *entry) bool {
	addr := old.frame.Address
	if c.get(addr) != old {
		return false
	}
	c.young.putFrame(addr, e)
	return true
}

// remove drops a frame, which will be looked up again.
func (c *frameCache) remove(e *entry) {
	for _, g := range []*generation{&c.young, &c.old} {
		if g.frames[e.frame.Address] == e {
			delete(g.frames, e.frame.Address)
			g.bytes -= e.bytes()
		}
	}
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

// rotate drops the old generation and returns the number of its frames.
func (c *frameCache) rotate() (frames int) {
	frames = len(c.old.frames)
	c.old, c.young = c.young, generation{}
	return frames
}

// reset drops everything and returns the number of frames.
func (c *frameCache) reset() (frames int) {
	frames = len(c.old.frames) + len(c.young.frames)
	c.old, c.young = generation{}, generation{}
	return frames
}
