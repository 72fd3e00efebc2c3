// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"fmt"
	"regexp"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// goMalloc are the functions of Go's runtime by which compiled code allocates;
// those for one size class are there where GOEXPERIMENT=sizespecializedmalloc was
// set. All have the arguments of the first.
var goMalloc = regexp.MustCompile(`^runtime\.mallocgc(|SmallNoScanSC\d+|SmallScanNoHeaderSC\d+|TinySize\d+|TinySC\d+)$`)

// maxGoTable bounds the memory for the list of a program's functions.
const maxGoTable = 64 << 20

// findGo looks into the pclntab at off.
func findGo(file *elfimage.File, sections []elfimage.Section, off, size uint64, buf []byte) ([]Function, error) {
	table, text, err := elfimage.ParsePclntab(file, off, size, func(entries int, each int64) error {
		if int64(entries)*each > maxGoTable {
			return fmt.Errorf("%d functions: %w", entries, elfimage.ErrTooLarge)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !table.RegisterABI() {
		return nil, ErrOldGo
	}
	if err := table.ResolveText(file, sections, text, buf); err != nil {
		return nil, err
	}
	var out []Function
	read := &blocks{file: file}
	for i := range table.Len() {
		info, err := table.Info(read, i)
		if err != nil {
			return nil, err
		}
		name, err := table.Name(read, info)
		if err != nil {
			return nil, err
		}
		if len(name) > maxName || !goMalloc.MatchString(name) {
			continue
		}
		if offset, ok := file.OffsetOf(info.Entry); ok {
			out = append(out, Function{Name: name, Call: Go, Offset: offset})
		}
	}
	return out, nil
}

const (
	blockBytes = 16 << 10
	blockCount = 8
)

// blocks gives pieces of a file. The last few stay in memory: a function's data
// and its name lie in different places.
type blocks struct {
	file *elfimage.File
	held [blockCount][]byte
	at   [blockCount]uint64 // number of the block plus 1
}

// Block implements elfimage.Reader.
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
			return nil, fmt.Errorf("reading at %#x: %w", off, elfimage.ErrTruncated)
		}
		b.held[slot] = b.held[slot][:min(blockBytes, b.file.Size-start)]
		if err := b.file.Read(b.held[slot], start); err != nil {
			return nil, err
		}
		b.at[slot] = number + 1
	}
	held := b.held[slot]
	if off%blockBytes >= uint64(len(held)) {
		return nil, fmt.Errorf("reading at %#x: %w", off, elfimage.ErrTruncated)
	}
	return held[off%blockBytes:], nil
}
