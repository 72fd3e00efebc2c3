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
	binary := filepath.Join(t.TempDir(), "otelcol")
	require.NoError(t, os.WriteFile(binary, nil, 0o755))
	known := []string{"nginx", "node"}
	o, err := parseOptions([]string{"-binary", binary}, known)
	require.NoError(t, err)
	require.Equal(t, options{binary: binary, programs: known, seconds: 10 * time.Second, period: 3 * time.Millisecond}, o)

	o, err = parseOptions([]string{"-binary", binary, "-programs", "node", "-seconds", "2s", "-period", "1ms", "-json", "j", "-keep", "k", "-required"}, known)
	require.NoError(t, err)
	require.Equal(t, options{binary, []string{"node"}, 2 * time.Second, time.Millisecond, "j", "k", true}, o)

	_, err = parseOptions([]string{"-binary", "/nowhere", "-programs", "x", "-seconds", "1s", "-period", "1s", "more"}, known)
	require.EqualError(t, err, `arguments ["more"]: none are allowed
-programs "x": allowed are nginx, node
-seconds 1s: must be from 2s to 10m
-period 1s: must be from 1ms to 100ms
looking for the Collector, which `+"`make build`"+` makes: stat /nowhere: no such file or directory`)
}
