// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// tree writes files below a folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return root
}

const (
	version2 = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n"
	version1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n40 31 0:9 / /proc rw - proc proc rw\n"
)

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		group, mounts string
		files         map[string]string
		want          Limits
	}{
		"version 2, the parent's is lower": {"0::/a/b\n", version2, map[string]string{
			"sys/fs/cgroup/a/b/memory.max": "134217728\n", "sys/fs/cgroup/a/memory.max": "67108864\n",
			"sys/fs/cgroup/a/b/cpu.max": "50000 100000\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n",
		}, Limits{64 << 20, "/sys/fs/cgroup/a/memory.max", 0.5, "/sys/fs/cgroup/a/b/cpu.max"}},
		"version 2, none": {"0::/a\n", version2, map[string]string{
			"sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n",
		}, Limits{}},
		"version 2, the root of a container": {"0::/\n", version2, map[string]string{
			"sys/fs/cgroup/memory.max": "1048576\n", "sys/fs/cgroup/cpu.max": "200000 100000\n",
		}, Limits{1 << 20, "/sys/fs/cgroup/memory.max", 2, "/sys/fs/cgroup/cpu.max"}},
		"version 1": {"5:cpu,cpuacct:/x\n4:memory:/y/z\n0::/\n", version1, map[string]string{
			"sys/fs/cgroup/memory/y/z/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/y/memory.limit_in_bytes": "268435456\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
			"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us": "1000\n", "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
		}, Limits{256 << 20, "/sys/fs/cgroup/memory/y/memory.limit_in_bytes", 0.01, "/sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us"}},
		"version 1, the container's part is mounted": {"4:memory:/docker/0123\n", "35 31 0:32 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", map[string]string{
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "33554432\n",
		}, Limits{Memory: 32 << 20, MemoryFile: "/sys/fs/cgroup/memory/memory.limit_in_bytes"}},
		"version 1, the part of another one is mounted": {"4:memory:/docker/0123\n", "35 31 0:32 /docker/01 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", map[string]string{
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "33554432\n",
		}, Limits{Memory: 32 << 20, MemoryFile: "/sys/fs/cgroup/memory/memory.limit_in_bytes"}},
		"a mount point with a blank": {"0::/\n", `41 31 0:38 / /my\040groups rw - cgroup2 none rw` + "\n", map[string]string{
			"my groups/memory.max": "4096\n",
		}, Limits{Memory: 4096, MemoryFile: "/my groups/memory.max"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(c.files)
			files["proc/self/cgroup"], files["proc/self/mountinfo"] = c.group, c.mounts
			got, err := read(tree(t, files))
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	none, err := read(t.TempDir())
	require.NoError(t, err)
	require.Zero(t, none)
	_, err = read(tree(t, map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": version2, "sys/fs/cgroup/memory.max": "much\n"}))
	require.ErrorContains(t, err, `/sys/fs/cgroup/memory.max says "much"`)
	_, err = read(tree(t, map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": version2, "sys/fs/cgroup/cpu.max": "7 0\n"}))
	require.ErrorContains(t, err, `the period of /sys/fs/cgroup/cpu.max is "0"`)
	_, err = Read()
	require.NoError(t, err)
}

func FuzzFolders(f *testing.F) {
	f.Add(version2, "", "/a/b")
	f.Add(version1, "memory", "/a/../b")
	f.Add("35 31 0:32 /docker/01 /x ro - cgroup cgroup rw,memory\n", "memory", "/docker/0123")
	f.Fuzz(func(t *testing.T, mounts, controller, group string) {
		for _, folder := range folders(mounts, controller, group) {
			require.NotEmpty(t, folder)
		}
	})
}
