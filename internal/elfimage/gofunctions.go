// SPDX-License-Identifier: Apache-2.0

package elfimage

import (
	"errors"
	"fmt"
)

// ErrOldGo is the cause when a program was built by a release of Go with an unsupported calling convention: until Go 1.17 functions had their
// arguments on the stack.
var ErrOldGo = errors.New("this release of Go is not supported: build the program with Go 1.18 or newer")

// EachGoFunction calls visit with each function of a program of Go, and where it begins and ends, by virtual address; with none if the file
// is no such program. It takes up to limit bytes of memory for the addresses. buf is the buffer to read into.
func (f *File) EachGoFunction(sections []Section, buf []byte, limit int64, visit func(name string, entry, end uint64)) (GoRelease, error) {
	off, size, ok := FindPclntab(f, sections, buf)
	if !ok {
		return GoUnknown, nil
	}
	release, err := f.eachGoFunction(sections, off, size, buf, limit, visit)
	if err != nil {
		return GoUnknown, fmt.Errorf("pclntab: %w", err)
	}
	return release, nil
}

func (f *File) eachGoFunction(sections []Section, off, size uint64, buf []byte, limit int64, visit func(name string, entry, end uint64)) (GoRelease, error) {
	table, text, err := ParsePclntab(f, off, size, func(entries int, each int64) error {
		if int64(entries)*each > limit {
			return fmt.Errorf("%d functions: %w", entries, ErrTooLarge)
		}
		return nil
	})
	if err != nil {
		return GoUnknown, err
	}
	if err := table.ResolveText(f, sections, text, buf); err != nil {
		return GoUnknown, err
	}
	read := &blocks{file: f}
	release := releases[table.version]
	for i := range table.Len() {
		info, err := table.Info(read, i)
		if err != nil {
			return GoUnknown, err
		}
		if release == Go116 && info.Flags != 0 {
			release = Go117 // the same table, but here some functions have one: runtime.goexit is the outermost of its stack
		}
		name, err := table.Name(read, info)
		if err != nil {
			return GoUnknown, err
		}
		visit(name, info.Entry, table.Entry(i+1))
	}
	return release, nil
}

const (
	blockBytes = 16 << 10
	blockCount = 8
)

// blocks returns blocks of a file. The last few stay in memory: a function's data and its name are in different blocks.
type blocks struct {
	file *File
	held [blockCount][]byte
	at   [blockCount]uint64 // number of the block plus 1
}

// Block implements Reader.
func (b *blocks) Block(off uint64) ([]byte, error) {
	number := off / blockBytes
	slot := number % blockCount
	if b.at[slot] != number+1 {
		if b.held[slot] == nil {
			b.held[slot] = make([]byte, blockBytes)
		}
		b.at[slot] = 0
		start := number * blockBytes
		if start >= b.file.Size {
			return nil, fmt.Errorf("reading at %#x: %w", off, ErrTruncated)
		}
		b.held[slot] = b.held[slot][:min(blockBytes, b.file.Size-start)]
		if err := b.file.Read(b.held[slot], start); err != nil {
			return nil, err
		}
		b.at[slot] = number + 1
	}
	held := b.held[slot]
	if off%blockBytes >= uint64(len(held)) {
		return nil, fmt.Errorf("reading at %#x: %w", off, ErrTruncated)
	}
	return held[off%blockBytes:], nil
}
