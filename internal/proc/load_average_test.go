// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadLoadAverage(t *testing.T) {
	proc := t.TempDir()
	_, err := ReadLoadAverage(proc)
	require.ErrorIs(t, err, os.ErrNotExist)
	file := filepath.Join(proc, "loadavg")
	require.NoError(t, os.WriteFile(file, []byte("4.79 3.10 0.07 2/1234 30321\n"), 0o600))
	load, err := ReadLoadAverage(proc)
	require.NoError(t, err)
	require.Equal(t, LoadAverage{OneMinute: 4.79, Threads: 1234}, load)
	require.NoError(t, os.WriteFile(file, []byte("much\n"), 0o600))
	_, err = ReadLoadAverage(proc)
	require.ErrorContains(t, err, `loadavg says "much\n"`)
}
