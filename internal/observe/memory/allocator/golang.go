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

// findGo looks into the pclntab of a program of Go; there is none in others.
func findGo(file *elfimage.File, sections []elfimage.Section, buf []byte) ([]Function, error) {
	var out []Function
	release, err := file.EachGoFunction(sections, buf, maxGoTable, func(name string, entry, _ uint64) {
		if len(name) > elfimage.MaxFunctionName || !goMalloc.MatchString(name) {
			return
		}
		if offset, ok := file.OffsetOf(entry); ok {
			out = append(out, Function{Name: name, Call: Go, Offset: offset})
		}
	})
	if err == nil && release < elfimage.Go118 && len(out) > 0 {
		return nil, fmt.Errorf("built by %v: %w", release, elfimage.ErrOldGo)
	}
	return out, err
}
