// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/disasm"
)

// goMalloc are the functions of Go's runtime by which compiled code allocates;
// those for one size class are there where GOEXPERIMENT=sizespecializedmalloc was
// set. All have the arguments of the first.
var goMalloc = regexp.MustCompile(`^runtime\.mallocgc(|SmallNoScanSC\d+|SmallScanNoHeaderSC\d+|TinySize\d+|TinySC\d+)$`)

const (
	// maxGoTable bounds the memory for the list of a program's functions.
	maxGoTable = 64 << 20
	// maxGoCode bounds the code of a function that is looked through.
	maxGoCode = 64 << 10
)

// findGo searches the pclntab of a Go program; other programs have none.
func findGo(file *elfimage.File, sections []elfimage.Section, buf []byte) ([]Function, error) {
	var out []Function
	var failed error
	release, err := file.EachGoFunction(sections, buf, maxGoTable, func(name string, entry, end uint64) {
		if failed != nil || len(name) > elfimage.MaxFunctionName || !goMalloc.MatchString(name) {
			return
		}
		offset, ok := file.OffsetOf(entry)
		if !ok {
			return
		}
		if offset, failed = runOnce(file, offset, end-entry); failed != nil {
			failed = fmt.Errorf("looking for where %s begins: %w", name, failed)
			return
		}
		out = append(out, Function{Name: name, Call: Go, Offset: offset})
	})
	if err == nil && release < elfimage.Go118 && len(out) > 0 {
		return nil, fmt.Errorf("built by %v: %w", release, elfimage.ErrOldGo)
	}
	return out, errors.Join(err, failed)
}

// runOnce gives the offset in the file of an instruction of a function of Go, of size bytes from an offset on, that is run once in each
// call. The first one may be run twice: a goroutine that is to pause does so at the check of its stack.
func runOnce(file *elfimage.File, offset, size uint64) (uint64, error) {
	if size > maxGoCode {
		return 0, fmt.Errorf("%d bytes of code: %w", size, elfimage.ErrTooLarge)
	}
	code := make([]byte, size)
	if err := file.Read(code, offset); err != nil {
		return 0, err
	}
	behind, err := disasm.BehindStackCheck(file.Machine, code)
	return offset + behind, err
}
