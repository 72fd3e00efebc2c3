// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseCPUList(t *testing.T) {
	for _, c := range []struct {
		list string
		cpus []int
		err  string
	}{
		{list: "", cpus: nil},
		{list: "0", cpus: []int{0}},
		{list: "0-3", cpus: []int{0, 1, 2, 3}},
		{list: "0-1,3,8-9", cpus: []int{0, 1, 3, 8, 9}},
		{list: "5-5", cpus: []int{5}},
		{list: "8191", cpus: []int{8191}},
		{list: "8192", err: `parsing CPU list "8192": range 8192 is out of bounds`},
		{list: "0-65535", err: `parsing CPU list "0-65535": range 0-65535 is out of bounds`},
		{list: "3-1", err: `parsing CPU list "3-1": range 3-1 is out of bounds`},
		{list: "0-3,2", err: `parsing CPU list "0-3,2": range 2 is out of bounds`},
		{list: "0-8191,0-8191", err: `parsing CPU list "0-8191,0-8191": range 0-8191 is out of bounds`},
		{list: "99999999999", err: `parsing CPU list "99999999999": strconv.ParseUint: parsing "99999999999": value out of range`},
		{list: "-1", err: `parsing CPU list "-1": strconv.ParseUint: parsing "": invalid syntax`},
		{list: "1-", err: `parsing CPU list "1-": strconv.ParseUint: parsing "": invalid syntax`},
		{list: "1,,2", err: `parsing CPU list "1,,2": strconv.ParseUint: parsing "": invalid syntax`},
		{list: "1-2-3", err: `parsing CPU list "1-2-3": strconv.ParseUint: parsing "2-3": invalid syntax`},
		{list: "a\x00", err: `parsing CPU list "a\x00": strconv.ParseUint: parsing "a\x00": invalid syntax`},
	} {
		cpus, err := parseCPUList(c.list)
		if c.err != "" {
			require.EqualError(t, err, c.err)
			continue
		}
		require.NoError(t, err, c.list)
		require.Equal(t, c.cpus, cpus, c.list)
	}
}

func FuzzParseCPUList(f *testing.F) {
	for _, seed := range []string{"", "0", "0-3,8", "8191", "0-8192", "1-0", ",", "-", "0-8191,0-8191", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		cpus, err := parseCPUList(list)
		if err != nil {
			require.Empty(t, cpus)
			return
		}
		require.LessOrEqual(t, len(cpus), maxCPUs)
		require.True(t, slices.IsSorted(cpus))
		require.Len(t, slices.Compact(slices.Clone(cpus)), len(cpus), "no CPU twice")
	})
}

func TestOnlineCPUs(t *testing.T) {
	require.Eventually(t, func() bool { // tests of other packages take a CPU off line for a moment
		cpus, err := OnlineCPUs("/sys")
		require.NoError(t, err)
		return len(cpus) >= runtime.NumCPU()
	}, time.Minute, time.Millisecond, "NumCPU counts those that this process may run on")

	root := t.TempDir()
	_, err := OnlineCPUs(root)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "reading the list of online CPUs: ")

	file := filepath.Join(root, "devices/system/cpu/online")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte("0-1,4\n"), 0o644))
	cpus, err := OnlineCPUs(root)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 4}, cpus)

	require.NoError(t, os.WriteFile(file, []byte("none\n"), 0o644))
	_, err = OnlineCPUs(root)
	require.EqualError(t, err, "reading "+file+`: parsing CPU list "none": strconv.ParseUint: parsing "none": invalid syntax`)
}
