// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bufio"
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// committed are the programs of testdata/bin, which make.sh there makes.
var committed = []string{"gcc-dwarf2", "gcc-dwarf4", "gcc-dwarf5-64", "gcc-zlib", "clang-dwarf3", "clang-dwarf5", "clang-split5", "clang-zstd"}

func imageOfBytes(b []byte) elfimage.Image {
	return elfimage.Image{Src: bytes.NewReader(b), Size: uint64(len(b))}
}

// fromTestdata opens the files in the folder of a program of testdata/bin.
func fromTestdata(p string) (File, error) {
	b, err := os.ReadFile(filepath.Join("testdata/bin", path.Base(p)))
	if err != nil {
		return File{}, err
	}
	return File{imageOfBytes(b), func() error { return nil }}, nil
}

// TestCommitted compares with the output of llvm-symbolizer from when the programs were made; it needs no tools.
func TestCommitted(t *testing.T) {
	for _, name := range committed {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile("testdata/bin/" + name)
			require.NoError(t, err)
			d, err := Open(imageOfBytes(b), Options{Open: fromTestdata, Path: "/build/" + name})
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			text, err := os.ReadFile("testdata/bin/" + name + ".lines")
			require.NoError(t, err)
			addresses, inlined := 0, 0
			for _, part := range strings.Split("\n"+string(text), "\n0x")[1:] {
				lines := bufio.NewScanner(strings.NewReader(part))
				lines.Scan()
				addr, err := strconv.ParseUint(lines.Text(), 16, 64)
				require.NoError(t, err)
				var want []string
				for lines.Scan() {
					function := lines.Text()
					lines.Scan()
					at, _, _ := strings.Cut(lines.Text(), " (")
					if function != "??" || !strings.HasPrefix(at, "??") {
						function, _, _ = strings.Cut(function, ".") // of a symbol such as outer.constprop.0
						if at = path.Clean(at); !strings.Contains(at, "/") {
							at = "??:0" // a file of the symbol table
						}
						want = append(want, function+" "+at)
					}
				}
				places, err := d.Lookup(addr, nil)
				require.NoError(t, err)
				var got []string
				for _, p := range places {
					at := "??:0"
					if p.File != "" {
						at = p.File + ":" + strconv.Itoa(int(p.Line))
					}
					name := "??"
					if p.Function != nil {
						name = p.Function.Name
					}
					got = append(got, name+" "+at)
				}
				require.Equal(t, want, got, "%#x", addr)
				addresses++
				if len(want) > 1 {
					inlined++
				}
			}
			require.Greater(t, addresses, 60)
			require.Greater(t, inlined, 10)
		})
	}
}
