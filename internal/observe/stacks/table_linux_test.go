// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package stacks

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

func TestSizes(t *testing.T) {
	require.EqualValues(t, EntryHeadBytes, unsafe.Offsetof(bindings.OnCPUStackEntry{}.Frames))
	require.EqualValues(t, tableHeadBytes, unsafe.Offsetof(bindings.OnCPUStackTable{}.Arena))
}

func TestEntryAt(t *testing.T) {
	raw := given{
		hash: 1, start: 2, pid: 3, tid: 4, count: 5, execID: 6, tag: 7, values: [2]uint64{8, 9}, comm: "swapper",
		user: []uint64{10, 11, 12}, kernel: []uint64{20, 21},
	}.bytes()
	e, size, err := entryAt(append(raw, 0xff))
	require.NoError(t, err)
	require.Equal(t, EntryHeadBytes+5*8, size)
	require.Equal(t, []uint64{10, 11, 12}, e.User)
	require.Equal(t, []uint64{20, 21}, e.Kernel)
	require.Equal(t, 3, cap(e.User), "appending must not reach the kernel's frames")
	require.Equal(t, "swapper", e.comm())
	require.Equal(t, []uint64{1, 2}, []uint64{e.Hash, e.StartBoottime})
	require.Equal(t, []uint32{3, 4, 5, 6, 7}, []uint32{e.Pid, e.Tid, e.Count, e.ExecId, e.Tag})
	require.Equal(t, []uint64{5, 8, 9}, []uint64{Count(&e), First(&e), Second(&e)})
}

func TestEntryWithoutStacks(t *testing.T) {
	e, size, err := entryAt(given{pid: 1, userErr: -14, kernelErr: -14}.bytes())
	require.NoError(t, err)
	require.Equal(t, EntryHeadBytes, size)
	require.Empty(t, e.User)
	require.Empty(t, e.Kernel)
	require.Equal(t, int16(-14), e.UserFrames)
}

func TestEntryAtRefuses(t *testing.T) {
	frames := func(user, kernel int16, bytes int) []byte {
		raw := aligned(bytes)
		binary.NativeEndian.PutUint16(raw[56:], uint16(user))
		binary.NativeEndian.PutUint16(raw[58:], uint16(kernel))
		return raw
	}
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"nothing":              {nil, "0 bytes left, an entry has 88"},
		"half a head":          {aligned(87), "87 bytes left, an entry has 88"},
		"frames missing":       {frames(2, 1, 88+23), "an entry of 2 and 1 frames does not fit into 111 bytes"},
		"too many of a user":   {frames(1025, 0, 9000), "an entry of 1025 and 0 frames does not fit into 9000 bytes"},
		"too many of a kernel": {frames(-1, 128, 4096), "an entry of 0 and 128 frames does not fit into 4096 bytes"},
	} {
		_, _, err := entryAt(c.raw)
		require.EqualError(t, err, c.want, name)
	}
}

func TestEach(t *testing.T) {
	one := given{pid: 1, count: 1, user: []uint64{7}}.bytes()
	two := given{pid: 2, count: 2}.bytes()
	three := given{pid: 3, count: 3, user: make([]uint64, 127), kernel: make([]uint64, 127)}.bytes()
	full := tableOf(len(one)+len(two)+len(three), one, two, three)
	var counts []uint32
	require.NoError(t, full.each(func(e Entry) { counts = append(counts, e.Pid, e.Count) }))
	require.Equal(t, []uint32{1, 1, 2, 2, 3, 3}, counts)

	empty := tableOf(0)
	require.NoError(t, empty.each(func(Entry) { t.Fatal("there is none") }))

	full.head().Seen = 9
	full.head().Slots[1023] = 1
	full.clear()
	require.Equal(t, bindings.OnCPUStackTable{}, *full.head())
	require.NoError(t, full.each(func(Entry) { t.Fatal("it was cleared") }))
}

func TestEachRefuses(t *testing.T) {
	one := given{pid: 1, user: []uint64{7}}.bytes()
	beyond := tableOf(96, one)
	beyond.head().Used = 97
	require.EqualError(t, beyond.each(func(Entry) {}), "reading a sample table: 97 bytes in use of 96")
	beyond.head().Used = 1<<32 - 1
	require.EqualError(t, beyond.each(func(Entry) {}), "reading a sample table: 4294967295 bytes in use of 96")

	torn := tableOf(128, one, make([]byte, 8))
	visited := 0
	require.EqualError(t, torn.each(func(Entry) { visited++ }),
		"reading a sample table at 96: 8 bytes left, an entry has 88")
	require.Equal(t, 1, visited, "the entries before are visited")
}

// FuzzEach checks that no memory, whatever it holds, makes each read beyond it or not end.
func FuzzEach(f *testing.F) {
	f.Add([]byte{}, uint32(0))
	f.Add(given{pid: 1, user: []uint64{1, 2}, kernel: []uint64{3}}.bytes(), uint32(112))
	f.Add(given{pid: 1, userErr: -14}.bytes(), uint32(88))
	f.Add(make([]byte, 200), uint32(200))
	f.Add(make([]byte, 8), uint32(1<<32-1))
	f.Fuzz(func(t *testing.T, arena []byte, used uint32) {
		table := tableOf(len(arena), arena)
		table.head().Used = used
		read := 0
		err := table.each(func(e Entry) {
			if len(e.User) > MaxDepth+1 || len(e.Kernel) > helperFrames {
				t.Fatalf("%d and %d frames", len(e.User), len(e.Kernel))
			}
			for _, frame := range [][]uint64{e.User, e.Kernel} {
				for i := range frame {
					frame[i]++ // it must be the table's memory
				}
			}
			read += EntryHeadBytes + 8*(len(e.User)+len(e.Kernel))
		})
		if err == nil && read != int(used) || read > len(arena) {
			t.Fatalf("read %d bytes of %d, %d in use", read, len(arena), used)
		}
	})
}
