// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fake writes a proc file system.
func fake(t *testing.T, files map[string]string) FS {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return FS(root)
}

func TestCPUTimeSumsThreads(t *testing.T) {
	p := fake(t, map[string]string{
		"7/task/7/schedstat": "1500000000 20 3\n",
		"7/task/9/schedstat": "250000000 0 1\n",
	})
	used, err := p.CPUTime(7)
	require.NoError(t, err)
	require.Equal(t, 1750*time.Millisecond, used)

	_, err = p.CPUTime(8)
	require.ErrorContains(t, err, "reading the CPU time of process 8: no threads")
	_, err = fake(t, map[string]string{"7/task/7/schedstat": "x 1 1\n"}).CPUTime(7)
	require.ErrorContains(t, err, "time run")
}

func TestHostIdle(t *testing.T) {
	p := fake(t, map[string]string{"stat": "cpu  100 2 30 4000 50 0 6 7 0 0\ncpu0 50 1 15 2000 25 0 3 3 0 0\ncpu1 50 1 15 2000 25 0 3 4 0 0\nintr 5 1\n"})
	idle, err := p.HostIdle()
	require.NoError(t, err)
	require.Equal(t, Idle{CPUs: 2, Idle: 40500 * time.Millisecond, Steal: 70 * time.Millisecond}, idle)

	for text, want := range map[string]string{
		"":                        "it lists no CPU",
		"cpu a b c d e f g h i\n": "number of ticks",
	} {
		_, err := fake(t, map[string]string{"stat": text}).HostIdle()
		require.ErrorContains(t, err, want)
	}
	_, err = FS(t.TempDir()).HostIdle()
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestMemory(t *testing.T) {
	p := fake(t, map[string]string{"3/status": "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t     300 kB\nRssFile:\t     724 kB\n"})
	m, err := p.Memory(3)
	require.NoError(t, err)
	require.Equal(t, Memory{RSS: 1 << 20, Anon: 300 << 10, File: 724 << 10, Peak: 2 << 20}, m)
	require.Equal(t, Memory{RSS: 5 << 20, Anon: 300 << 10, File: 724 << 10, Peak: 2 << 20}, m.Max(Memory{RSS: 5 << 20, Anon: 1}))

	_, err = fake(t, map[string]string{"3/status": "VmRSS: many kB\n"}).Memory(3)
	require.ErrorContains(t, err, "VmRSS")
}

func TestKernelMapsCountsEachMapOnce(t *testing.T) {
	p := fake(t, map[string]string{
		"3/fdinfo/4": "pos:\t0\nmap_type:\t2\nmemlock:\t4096\nmap_id:\t11\n",
		"3/fdinfo/5": "map_type:\t2\nmemlock:\t4096\nmap_id:\t11\n",
		"3/fdinfo/6": "map_type:\t27\nmemlock:\t8192\nmap_id:\t12\n",
		"3/fdinfo/7": "prog_type:\t7\nmemlock:\t65536\nprog_id:\t9\n",
		"3/fdinfo/8": "pos:\t0\nflags:\t02\n",
	})
	maps, err := p.KernelMaps(3)
	require.NoError(t, err)
	require.Equal(t, KernelMaps{Maps: 2, Bytes: 12288}, maps)

	for id, want := range map[uint32]bool{9: true, 8: false, 11: false} {
		holds, err := p.HoldsProgram(3, id)
		require.NoError(t, err)
		require.Equal(t, want, holds, "program %d", id)
	}

	_, err = p.KernelMaps(4)
	require.ErrorContains(t, err, "process 4")
	_, err = p.HoldsProgram(4, 9)
	require.ErrorContains(t, err, "process 4")
}

func TestStorageObjects(t *testing.T) {
	head := "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables 0 0 0 : slabdata 0 0 0\n"
	line := func(name string, pages, slabs string) string {
		return name + "  9 42 192 21 " + pages + " : tunables 0 0 0 : slabdata " + slabs + " " + slabs + " 0\n"
	}
	page := uint64(os.Getpagesize())
	others := head + line("dentry", "1", "100") + line("kmalloc-rcl-96", "1", "1000") + line("kmalloc-256", "8", "2") + line("kmalloc-64", "1", "3") +
		strings.Replace(line("kmalloc-2k", "8", "7"), " 192 ", " 2048 ", 1)
	sum, err := fake(t, map[string]string{"slabinfo": others}).StorageObjects()
	require.NoError(t, err)
	require.Equal(t, (16+3)*page, sum, "no cgroup is charged")
	sum, err = fake(t, map[string]string{"slabinfo": others + line("kmalloc-cg-192", "1", "5") + line("kmalloc-cg-256", "8", "1")}).StorageObjects()
	require.NoError(t, err)
	require.Equal(t, (5+8)*page+(5+1)*21*8, sum)
	_, err = fake(t, map[string]string{"slabinfo": head + line("kmalloc-8", "1", "x")}).StorageObjects()
	require.ErrorContains(t, err, "kmalloc-8: ")
	_, err = fake(t, map[string]string{"slabinfo": head}).StorageObjects()
	require.ErrorContains(t, err, "it has no kmalloc-*")
	_, err = FS(t.TempDir()).StorageObjects()
	require.ErrorIs(t, err, os.ErrNotExist)
}
