// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWriteProfiles checks that go tool pprof counts what is in the input, and that folded stacks have each of its stacks once.
func TestWriteProfiles(t *testing.T) {
	dir := t.TempDir()
	appendTo(t, filepath.Join(dir, profilesFile), string(fixture(t))+"{x}\n")
	opts := options{dir: dir, pprof: filepath.Join(dir, "cpu.pb.gz"), folded: filepath.Join(dir, "cpu.folded"), sampleType: "samples"}
	var out bytes.Buffer
	require.NoError(t, writeProfiles(opts, &out))
	require.Equal(t, opts.pprof+": 1,111 samples in 8 stacks\n"+opts.folded+": 1,111 samples in 8 stacks\n"+
		"left out: 0 lines that are too long, 1 that are not readable, 0 samples beyond the bound of stacks\n", out.String())

	folded, err := os.ReadFile(opts.folded)
	require.NoError(t, err)
	require.Equal(t, `demo;main;burn 700
demo;main;burn;burn 150
demo;main;idle 150
demo;main;late 1
web 10
web;main;serve;[stripped] 40
web;main;serve;entry_SYSCALL_64_[k];tcp_sendmsg_[k] 60
`, string(folded))

	text, err := exec.Command("go", "tool", "pprof", "-top", opts.pprof).CombinedOutput()
	require.NoError(t, err, "%s", text)
	for _, want := range []string{
		`of 9999ms total`, `(?m)^ +7650ms 76\.51% .* 7650ms 76\.51%  burn$`, `(?m)^ +540ms  5\.40% .* 540ms  5\.40%  tcp_sendmsg$`, `(?m)^ +0 .* 9909ms 99\.10%  main$`,
	} {
		require.Regexp(t, want, string(text))
	}
	tags, err := exec.Command("go", "tool", "pprof", "-tags", "-sample_index=samples", opts.pprof).CombinedOutput()
	require.NoError(t, err, "%s", tags)
	require.Regexp(t, `(?s)pid: Total 1111.*process: Total 1111.*1001 .*demo.*service: Total 1111`, string(tags))
}

func TestWriteNothing(t *testing.T) {
	dir := t.TempDir()
	opts := options{dir: dir, folded: filepath.Join(dir, "out"), sampleType: "off_cpu"}
	require.ErrorContains(t, writeProfiles(opts, &bytes.Buffer{}), "nothing to write: "+filepath.Join(dir, profilesFile)+" has no samples of type off_cpu (0 of others)")
	appendTo(t, filepath.Join(dir, profilesFile), string(fixture(t)))
	require.ErrorContains(t, writeProfiles(opts, &bytes.Buffer{}), "no samples of type off_cpu (8 of others)")
	opts.sampleType, opts.folded = "samples", filepath.Join(dir, "absent", "out")
	require.ErrorContains(t, writeProfiles(opts, &bytes.Buffer{}), "creating the file to write: ")
}
