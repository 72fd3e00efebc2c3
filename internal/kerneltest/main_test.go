// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/aptkernel"
)

func TestParseOptions(t *testing.T) {
	o, err := parseOptions([]string{"-packages", "a,b", "-kernels", "7.2,5.10", "-run", "TestA", "-count", "4", "-jobs", "1", "-dir", "/k", "-timeout", "3s", "-prepare"})
	require.NoError(t, err)
	require.Equal(t, options{packages: []string{"a", "b"}, kernels: []aptkernel.Kernel{aptkernel.Kernels[3], aptkernel.Kernels[0]},
		arch: "amd64", dir: "/k", run: "TestA", count: 4, jobs: 1, timeout: 3 * time.Second, prepare: true}, o)

	o, err = parseOptions(nil)
	require.NoError(t, err)
	require.Len(t, o.kernels, 4)
	require.Empty(t, o.packages, "below this folder there is none of the tested packages")
}

// TestInShort checks how guests are made to leave out what takes long.
func TestInShort(t *testing.T) {
	require.Contains(t, qemuArgs(machines["amd64"], "/k", "/rd", true), "console=ttyS0 quiet panic=-1 no_timer_check KERNELTEST_ARGS=-test.short")
	require.Contains(t, qemuArgs(machines["amd64"], "/k", "/rd", false), "console=ttyS0 quiet panic=-1 no_timer_check")
}

func TestParseOptionsRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"-kernels 4.19: no such kernel; there are 5.10, 6.1, 6.12, 7.2": {"-kernels", "4.19"},
		"-arch s390x: no such machine; there are amd64 and arm64":       {"-arch", "s390x"},
		"-run: error parsing regexp":                                    {"-run", "("},
		"-quick together with -run":                                     {"-quick", "-run", "TestA"},
		"-quick together with":                                          {"-quick", "-long"},
		"-count 0":                                                      {"-count", "0"},
		"-jobs 0":                                                       {"-jobs", "0"},
		"-timeout 1ms":                                                  {"-timeout", "1ms"},
	} {
		_, err := parseOptions(args)
		require.ErrorContains(t, err, want)
	}
}

// TestLock checks that a second run waits until the first has ended.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lock(dir)
	require.NoError(t, err)
	other, err := os.Open(dir)
	require.NoError(t, err)
	defer other.Close()
	require.ErrorIs(t, unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
	unlock()
	require.NoError(t, unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	_, err = lock(filepath.Join(dir, "absent"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestExisting(t *testing.T) {
	require.Equal(t, []string{"golog"}, existing([]string{"golog", "init", "absent"}))
}

func TestManifest(t *testing.T) {
	m := newManifest(options{packages: []string{"./internal/kernel/"}, run: "^TestX$"})
	require.Equal(t, "internal/kernel", m.Packages[0].Name)
	require.Equal(t, "/src/internal/kernel", m.Packages[0].Dir)
	require.Equal(t, "/src/internal/kernel/kernel.test", m.Packages[0].Binary)
	require.Equal(t, "^TestX$", m.Packages[0].Run)
	require.Contains(t, m.Env, "EBPFRECEIVER_KERNELTEST=1")
	require.Contains(t, m.Env, "EBPFRECEIVER_TESTBIN=/testbin")
}

// TestQuickTests checks that what -quick names is there: tests of these names in packages that guests test.
func TestQuickTests(t *testing.T) {
	for name, run := range quickTests {
		require.Contains(t, testedPackages, name)
		files, err := filepath.Glob(filepath.Join("../..", name, "*_test.go"))
		require.NoError(t, err)
		var text []byte
		for _, file := range files {
			part, err := os.ReadFile(file)
			require.NoError(t, err)
			text = append(text, part...)
		}
		for one := range strings.SplitSeq(strings.Trim(run, "^()$"), "|") {
			require.Regexp(t, `(?m)^func `+one+`\w*\(t \*testing\.T\)`, string(text), name)
			if one != "Test" {
				require.Contains(t, string(text), "func "+one+"(t ", name)
			}
		}
	}
	m := newManifest(options{packages: []string{"internal/kernel", "internal/observe/memory"}, quick: true})
	require.Equal(t, []string{"^Test", "^(TestLevels|TestManyLooks)$"}, []string{m.Packages[0].Run, m.Packages[1].Run})
}
