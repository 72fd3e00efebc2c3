// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEvents(t *testing.T) {
	dir := t.TempDir()
	_, err := events(dir, "x", "p")
	require.ErrorIs(t, err, os.ErrNotExist, "nothing was written yet")
	const line = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[
		{"eventName":"x","attributes":[{"key":"ebpf.policy","value":{"stringValue":"p"}},{"key":"ebpf.task.id","value":{"stringValue":"7"}},
		 {"key":"ebpf.causes","value":{"arrayValue":{"values":[{"kvlistValue":{"values":[
		  {"key":"monitor","value":{"stringValue":"m"}},{"key":"threshold","value":{"doubleValue":1.5}}]}},{"stringValue":"q"}]}}}]},
		{"eventName":"y","attributes":[{"key":"ebpf.policy","value":{"stringValue":"p"}}]},
		{"eventName":"x","attributes":[{"key":"ebpf.policy","value":{"stringValue":"q"}}]}]}]}]}`
	file := filepath.Join(dir, "logs.json")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(line, "\n", "")+"\n"+`{"half`), 0o600))
	list, err := events(dir, "x", "p")
	require.NoError(t, err)
	require.Equal(t, []event{{task: "7", causes: "monitor m, threshold 1.5; q"}}, list)
	require.NoError(t, os.WriteFile(file, []byte("no JSON\n"), 0o600))
	_, err = events(dir, "x", "p")
	require.ErrorContains(t, err, "reading logs: ")
}

func TestShares(t *testing.T) {
	s := shares{samples: 10, by: map[string]int64{"main.work": 9, "main.rest": 1, "main.main": 10}}
	require.InDelta(t, 0.9, s.of("work"), 1e-9)
	require.Zero(t, s.of("or"))
	require.Zero(t, shares{}.of("work"))
	require.Equal(t, "10 samples, most in main.main, main.work", s.hottest(2))
}

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-troubles", "slow,busy"})
	require.NoError(t, err)
	require.Equal(t, []string{"slow", "busy"}, []string{o.troubles[0].name, o.troubles[1].name})
	_, err = parseOptions([]string{"-troubles", "quiet"})
	require.ErrorContains(t, err, `-troubles "quiet": there are busy, slow, failing, threads, load`)
}

func TestConfiguration(t *testing.T) {
	config, err := configuration("/none", nil)
	require.NoError(t, err)
	require.Contains(t, config, "/none/profiles.json")
}
