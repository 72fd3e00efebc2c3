// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"fmt"
	"math"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

const (
	goScratch   = 64 << 10
	maxPrologue = 16 // bytes of code that are searched for the saving of rbp
)

// golang yields the rules of Go functions. Their pclntab has the distance of the stack pointer below the return address. Where the frame
// pointer is saved follows from the compiler's conventions, cmd/internal/obj/x86/obj6.go and arm64/obj7.go: right below the return address on
// x86-64; on arm64, where the return address is at the lowest word of the frame, below that.
type golang struct {
	table *elfimage.GoTable
	file  *windows
	elf   *elfimage.File
	arch  *arch
}

// useGo adds the functions of Go's pclntab, if the binary has one.
func (b *builder) useGo(f *elfimage.File, sections []elfimage.Section, a *arch) {
	scratch := make([]byte, goScratch)
	off, size, ok := elfimage.FindPclntab(f, sections, scratch)
	if !ok {
		return
	}
	t, err := readGo(f, sections, off, size, scratch, b.memory)
	if err != nil {
		b.skip(fmt.Errorf("pclntab at offset %#x: %w", off, err))
		return
	}
	from := b.source(&golang{table: t, file: newWindows(f.Image, b.memory), elf: f, arch: a}, SourceGo)
	for i := range t.Len() {
		b.add(t.Entry(i), t.Entry(i+1), uint32(i), from)
	}
}

func readGo(f *elfimage.File, sections []elfimage.Section, off, size uint64, scratch []byte, held *memory) (*elfimage.GoTable, error) {
	t, header, err := elfimage.ParsePclntab(f, off, size, func(entries int, each int64) error {
		if entries > maxFuncs {
			return fmt.Errorf("%d functions: %w", entries, errTooMany)
		}
		if !held.hold(int64(entries) * each) {
			return held.err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, t.ResolveText(f, sections, header, scratch)
}

// emit yields the rules of the i-th function.
func (g *golang) emit(i uint32, p *packer) error {
	info, err := g.table.Info(g.file, int(i))
	if err != nil {
		return fmt.Errorf("reading Go function %d: %w", i, err)
	}
	switch way, err := g.wayOf(info); {
	case err != nil:
		return fmt.Errorf("reading the Go function at %#x: %w", info.Entry, err)
	case way == goOutermost:
		p.span(info.Entry, math.MaxUint64, Rule{CFA: CFAEnd})
		return nil
	case way == goSignal:
		p.span(info.Entry, math.MaxUint64, Rule{CFA: CFASignal})
		return nil
	case way == goGrows:
		p.span(info.Entry, math.MaxUint64, g.grows(info.Entry))
		return nil
	case way == goSwitches:
		p.span(info.Entry, math.MaxUint64, g.chained())
		return nil
	}
	saves, asked := true, info.Flags&elfimage.GoAssembly == 0
	err = g.table.Values(g.file, info.PCSP, info, func(from, to uint64, size int32) bool {
		if !asked && size > 0 {
			saves, asked = g.savesFP(from, size), true
		}
		p.span(from, to, g.rule(size, saves))
		return true
	})
	if err != nil {
		return fmt.Errorf("stack sizes of the Go function at %#x: %w", info.Entry, err)
	}
	return nil
}

// rule is that of a frame of a size in bytes, without the return address on x86-64, with it on arm64.
func (g *golang) rule(size int32, saves bool) Rule {
	if size < 0 || size > math.MaxInt32-8 {
		return Rule{}
	}
	r := Rule{CFA: CFAStackPointer, CFAOffset: size}
	if g.arch.plt {
		r.CFAOffset += 8
		r.RA, r.RAOffset = Saved, -8
		r.BX = Undefined // no function of Go keeps it for its caller
		if size > 0 && saves {
			r.FP, r.FPOffset = Saved, -16
		}
		return r
	}
	if size == 0 {
		return r // a leaf, or not yet in its frame: the return address is in lr
	}
	if size > math.MaxInt16-8 {
		return Rule{}
	}
	r.RA, r.RAOffset = Saved, int16(-size)
	if saves {
		r.FP, r.FPOffset = Saved, int16(-size-8)
	}
	return r
}

// chained is the rule of functions that switch stacks. Most do not change the frame pointer: it leads past their caller, to the caller's
// caller. On arm64 the frame pointer does not show where a frame ends, so there is no rule.
func (g *golang) chained() Rule {
	if !g.arch.plt {
		return Rule{}
	}
	return Rule{CFA: CFAFramePointer, CFAOffset: 16, FP: Saved, FPOffset: -16, RA: Saved, RAOffset: -8, BX: Undefined}
}

// grows is the rule of morestack, with the offset of curg in struct m, which
// depends on the release: 112 bytes behind gsignal (runtime2.go), which morestack
// reads by MOVQ m_gsignal(BX), SI. On arm64 the walk does not have the register
// that g is in.
func (g *golang) grows(entry uint64) Rule {
	const curgBehind, looked = 112, 96
	outermost := Rule{CFA: CFAEnd}
	off, ok := g.elf.OffsetOf(entry)
	if !g.arch.plt || !ok {
		return outermost
	}
	code, err := g.file.bytes(off, looked)
	if err != nil {
		return outermost // so short a file has no stack to grow
	}
	_, operand, found := bytes.Cut(code, []byte("\x48\x8b\x73"))
	if !found || len(operand) == 0 || operand[0] > math.MaxInt8 {
		return outermost
	}
	return Rule{CFA: CFAGoGrows, CFAOffset: int32(operand[0]) + curgBehind}
}

// savesFP reports whether a function of assembler code saves rbp when the stack first grows, by the code before and at that address: PUSHQ
// BP, or, before Go 1.21, MOVQ BP, size-8(SP).
func (g *golang) savesFP(at uint64, size int32) bool {
	if !g.arch.plt {
		return true
	}
	off, ok := g.elf.OffsetOf(at - 1)
	if !ok {
		return false
	}
	code, err := g.file.bytes(off, maxPrologue)
	if err != nil {
		return false
	}
	if code[0] == 0x55 && size == 8 {
		return true
	}
	c := cursor{b: code[1:]}
	switch {
	case size-8 <= math.MaxInt8 && c.u32() == 0x246c8948:
		return int32(int8(c.u8())) == size-8
	case size-8 > math.MaxInt8 && c.u32() == 0x24ac8948:
		return int32(c.u32()) == size-8
	}
	return false
}

// goWay is how a function leads to its caller.
type goWay uint8

const (
	goPlain goWay = iota
	goOutermost
	goSwitches
	goGrows
	goSignal
)

// goNamed are functions of the runtime that do not behave as their flags imply, or that older releases do not flag.
var goNamed = map[string]goWay{
	"runtime.goexit":      goOutermost,
	"runtime.mstart":      goOutermost,
	"runtime.rt0_go":      goOutermost,
	"runtime.mcall":       goOutermost, // to the scheduler: its caller waits, and does not run
	"runtime.morestack":   goGrows,
	"runtime.systemstack": goSwitches,
	"runtime.asmcgocall":  goSwitches,
	"runtime.cgocallback": goSwitches,
	// They are called by the kernel, and return through the trampoline.
	"runtime.sigtramp":             goPlain,
	"runtime.cgoSigtramp":          goPlain,
	"runtime.sigreturn":            goSignal,
	"runtime.sigreturn__sigaction": goSignal,
}

func (g *golang) wayOf(info elfimage.GoFunc) (goWay, error) {
	flagged := goPlain
	switch {
	case info.Flags&elfimage.GoTopFrame != 0:
		flagged = goOutermost
	case info.Flags&elfimage.GoWritesSP != 0:
		flagged = goSwitches
	}
	if info.Flags == 0 && info.ID == 0 {
		return flagged, nil
	}
	name, err := g.table.Name(g.file, info)
	if err != nil {
		return goPlain, err
	}
	if way, ok := goNamed[name]; ok {
		return way, nil
	}
	return flagged, nil
}
