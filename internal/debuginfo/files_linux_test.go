// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
)

// opener opens files below a root, and counts those that are open.
type opener struct {
	root string
	held map[string]int
}

func newOpener(t testing.TB, root string) *opener {
	o := &opener{root: root, held: map[string]int{}}
	t.Cleanup(func() { require.Empty(t, o.held, "files are left open") })
	return o
}

func (o *opener) open(p string) (File, error) {
	f, err := os.Open(filepath.Join(o.root, p))
	if err != nil {
		return File{}, err
	}
	st, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	o.held[p]++
	return File{elfimage.Image{Src: f, Size: uint64(st.Size())}, func() error {
		if o.held[p]--; o.held[p] == 0 {
			delete(o.held, p)
		}
		return f.Close()
	}}, nil
}

// requireEqual compares the results of two sources for the same code.
func requireEqual(t *testing.T, file string, want, got *Data) {
	t.Helper()
	addrs := addressesOf(t, file, 4000)
	known, inlined, different := compare(t, addrs, ours(t, want, addrs), ours(t, got, addrs))
	require.Greater(t, known, 100)
	require.Greater(t, inlined, 10)
	require.Zero(t, different)
}

func TestSplit(t *testing.T) {
	for _, c := range []struct{ compiler, flags, packer string }{
		{"g++", "-gdwarf-4", "dwp"},
		{"g++", "-gdwarf-5", ""}, // neither packer takes these
		{"clang++-19", "-gdwarf-4 -fno-split-dwarf-inlining", "llvm-dwp-19"},
		{"clang++-19", "-gdwarf-5 -fno-split-dwarf-inlining", "llvm-dwp-19"},
	} {
		t.Run(c.compiler+" "+c.flags, func(t *testing.T) {
			needCompiler(t, c.compiler)
			file := build(t, c.compiler, cplusplus, append(strings.Fields(c.flags), "-O2", "-gsplit-dwarf")...)
			o := newOpener(t, "/")
			d := open(t, file, Options{Open: o.open, Path: file})
			_, inlined := requireTruth(t, d, file, false)
			require.Greater(t, inlined, 1000)
			require.Len(t, o.held, 2, "a .dwo file for each unit")

			if c.packer == "" {
				return
			}
			dwo, err := filepath.Glob(filepath.Dir(file) + "/*.dwo")
			require.NoError(t, err)
			require.Len(t, dwo, 2)
			if c.packer == "dwp" {
				run(t, filepath.Dir(file), c.packer, "-o", file+".dwp", "-e", file)
			} else {
				needCompiler(t, "clang++-19")
				run(t, filepath.Dir(file), c.packer, append([]string{"-o", file + ".dwp"}, dwo...)...)
			}
			for _, f := range dwo {
				require.NoError(t, os.Rename(f, f+".gone"))
			}
			packed := open(t, file, Options{Open: o.open, Path: file})
			requireEqual(t, file, d, packed)
			require.Equal(t, 1, o.held[file+".dwp"])

			require.NoError(t, os.Remove(file+".dwp"))
			bare := open(t, file, Options{Open: o.open, Path: file})
			addr := addressesOf(t, file, 10)[5]
			lines, err := bare.Lookup(addr, nil)
			require.ErrorIs(t, err, errNoSplit)
			require.ErrorContains(t, err, ".dwo")
			want, err := d.Lookup(addr, nil)
			require.NoError(t, err)
			if len(want) > 0 {
				require.Equal(t, want[0].Line, lines[0].Line, "the line table is in the program")
			}
		})
	}
}

// TestSeparate moves the debug information of a program to other files.
func TestSeparate(t *testing.T) {
	whole := build(t, "g++", cplusplus, "-O2", "-g", "-Wl,--build-id")
	want := open(t, whole, Options{})
	dir := t.TempDir()
	debug, stripped := filepath.Join(dir, "program.debug"), filepath.Join(dir, "program")
	run(t, dir, "objcopy", "--only-keep-debug", whole, debug)
	run(t, dir, "objcopy", "--strip-all", "--add-gnu-debuglink="+debug, whole, stripped)
	img := imageOf(t, stripped)
	_, err := Open(img, Options{})
	require.ErrorIs(t, err, ErrNone)
	f, err := elfimage.Parse(img)
	require.NoError(t, err)
	id := BuildID(f)
	require.Contains(t, run(t, dir, "readelf", "-n", whole), id)
	require.Len(t, id, 40)

	root := t.TempDir()
	o := newOpener(t, root)
	_, _, err = Separate(img, "/srv/program", 1<<30, nil, o.open)
	require.ErrorIs(t, err, ErrNone)
	for _, place := range []string{"/srv/program.debug", "/srv/.debug/program.debug", "/usr/lib/debug/srv/program.debug", BuildIDPath(id)} {
		to := filepath.Join(root, place)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o700))
		require.NoError(t, os.Rename(debug, to))
		debug = to
		file, at, err := Separate(img, "/srv/program", 1<<30, nil, o.open)
		require.NoError(t, err, place)
		require.Equal(t, place, at)
		d, err := Open(file.Image, Options{Path: at, Binary: "/srv/program"})
		require.NoError(t, err)
		requireEqual(t, whole, want, d)
		require.NoError(t, d.Close())
		require.NoError(t, file.Close())
	}

	// Another file with that name.
	other := build(t, "g++", cplusplus, "-O1", "-g", "-Wl,--build-id")
	b, err := os.ReadFile(other)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(debug, b, 0o600))
	_, _, err = Separate(img, "/srv/program", 1<<30, nil, o.open)
	require.ErrorIs(t, err, errOtherFile)
	require.ErrorContains(t, err, BuildIDPath(id))
}

// TestDebugLinkChecksum: without build ids the checksum shows whether a file is the right one.
func TestDebugLinkChecksum(t *testing.T) {
	whole := build(t, "gcc", []string{"plain.c"}, "-O2", "-g", "-Wl,--build-id=none")
	root := t.TempDir()
	debug, stripped := filepath.Join(root, "program.debug"), filepath.Join(root, "program")
	run(t, root, "objcopy", "--only-keep-debug", whole, debug)
	run(t, root, "objcopy", "--strip-all", "--add-gnu-debuglink="+debug, whole, stripped)
	o := newOpener(t, root)
	file, at, err := Separate(imageOf(t, stripped), "/program", 1<<30, nil, o.open)
	require.NoError(t, err)
	require.Equal(t, "/program.debug", at)
	require.NoError(t, file.Close())
	b, err := os.ReadFile(debug)
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	require.NoError(t, os.WriteFile(debug, b, 0o600))
	_, _, err = Separate(imageOf(t, stripped), "/program", 1<<30, nil, o.open)
	require.ErrorIs(t, err, errOtherFile)
}

// TestAlternate has dwz move what two programs have in common to a separate file.
func TestAlternate(t *testing.T) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			var programs []string
			var want []*Data
			for _, level := range []string{"-O2", "-O3"} {
				whole := build(t, "g++", cplusplus, level, version)
				to := filepath.Join(dir, "program"+level)
				b, err := os.ReadFile(whole)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(to, b, 0o700))
				programs, want = append(programs, to), append(want, open(t, whole, Options{}))
			}
			run(t, dir, "dwz", "-m", "common.debug", "-r", programs[0], programs[1])
			o := newOpener(t, "/")
			for i, p := range programs {
				requireEqual(t, p, want[i], open(t, p, Options{Open: o.open, Path: p}))
			}
			require.Equal(t, map[string]int{path.Join(dir, "common.debug"): 2}, o.held)
			require.NoError(t, os.Remove(path.Join(dir, "common.debug")))
			d := open(t, programs[0], Options{Open: o.open, Path: programs[0]})
			_, err := d.Lookup(addressesOf(t, programs[0], 10)[5], nil)
			require.ErrorIs(t, err, errNoAlternate)
		})
	}
}

func TestCompressed(t *testing.T) {
	file := build(t, "g++", cplusplus, "-O2", "-g")
	want := open(t, file, Options{})
	for _, c := range []struct{ tool, kind string }{
		{"objcopy", "zlib"}, {"objcopy", "zlib-gnu"}, {"llvm-objcopy-19", "zlib"}, {"llvm-objcopy-19", "zstd"},
	} {
		t.Run(c.tool+" "+c.kind, func(t *testing.T) {
			if strings.HasPrefix(c.tool, "llvm") {
				needCompiler(t, "clang++-19")
			}
			out := filepath.Join(t.TempDir(), "program")
			run(t, filepath.Dir(out), c.tool, "--compress-debug-sections="+c.kind, file, out)
			require.Contains(t, run(t, filepath.Dir(out), "readelf", "-tW", out), map[string]string{"zlib": "ZLIB", "zlib-gnu": ".zdebug_info", "zstd": "ZSTD"}[c.kind])
			requireEqual(t, file, want, open(t, out, Options{}))
			in := open(t, out, Options{TempDir: "/proc/none"})
			requireEqual(t, file, want, in)
			require.Positive(t, in.inflated.memory, "in memory where no file can be made")
		})
	}
}

// TestMiniDebug makes .gnu_debugdata as Fedora does.
func TestMiniDebug(t *testing.T) {
	whole := build(t, "g++", cplusplus, "-O2")
	dir := t.TempDir()
	run(t, dir, "objcopy", "--only-keep-debug", whole, "mini")
	run(t, dir, "xz", "-k", "mini")
	run(t, dir, "objcopy", "--strip-all", "--add-section", ".gnu_debugdata=mini.xz", whole, "program")
	img, err := MiniDebug(imageOf(t, dir+"/program"))
	require.NoError(t, err)
	want, err := os.ReadFile(dir + "/mini")
	require.NoError(t, err)
	got := make([]byte, img.Size)
	require.NoError(t, img.Read(got, 0))
	require.Equal(t, want, got)
	_, err = MiniDebug(imageOf(t, whole))
	require.ErrorIs(t, err, ErrNone)
}
