// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadPressure(t *testing.T) {
	proc := t.TempDir()
	_, err := ReadPressure(proc, "io")
	require.ErrorIs(t, err, os.ErrNotExist)
	file := filepath.Join(proc, "pressure", "io")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	for text, want := range map[string]time.Duration{
		"some avg10=0.06 avg60=0.02 avg300=0.00 total=1234567\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=99\n": 1234567 * time.Microsecond,
		"full avg10=0.00 avg60=0.00 avg300=0.00 total=99\nsome avg10=0.06 avg60=0.02 avg300=0.00 total=7":         7 * time.Microsecond,
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		total, err := ReadPressure(proc, "io")
		require.NoError(t, err)
		require.Equal(t, want, total)
	}
	for _, text := range []string{"", "some\n", "some total=x\n", "some total=-5\n", "some total=99999999999999999999\n", "full avg10=0.00 total=9\n"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := ReadPressure(proc, "io")
		require.ErrorContains(t, err, "reading the pressure on io", text)
	}
}
