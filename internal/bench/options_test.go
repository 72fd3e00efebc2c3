// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptions(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "otelcol-ebpf")
	require.NoError(t, os.WriteFile(binary, nil, 0o700))
	o, err := parseOptions([]string{"-binary", binary, "-parts", "web,busy", "-seconds", "8s", "-nice", "-5", "-check"})
	require.NoError(t, err)
	require.Equal(t, []string{"web", "busy"}, o.parts)
	require.Equal(t, 8*time.Second, o.seconds)
	require.Equal(t, 15*time.Second, o.webTime)
	require.Equal(t, -5, o.nice)
	require.True(t, o.check)
	require.FileExists(t, filepath.Join(o.module, "go.mod"))
}

func TestOptionsRefuse(t *testing.T) {
	for want, args := range map[string][]string{
		`-parts "disk": allowed are exact, busy, web, switch, network, connections`: {"-parts", "disk"},
		"-seconds 1s: must be from 5s to 1h":                                        {"-seconds", "1s"},
		"-web-seconds 1h0m0s: must be from 2s to 10m":                               {"-web-seconds", "1h"},
		"-rounds 0: must be from 1 to 20":                                           {"-rounds", "0"},
		"-nice 20: must be from -20 to 19":                                          {"-nice", "20"},
		`arguments ["now"]: none are allowed`:                                       {"now"},
		"`make build` makes":                                                        {"-binary", filepath.Join(t.TempDir(), "none")},
	} {
		_, err := parseOptions(args)
		require.ErrorContains(t, err, want)
	}
}
