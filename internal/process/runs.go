// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"io/fs"
	"os"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Runs tells whether a process has not ended, by the procfs that is mounted at root. One that may not be looked at is
// taken to run.
func Runs(root string, id model.ProcessID) bool {
	text, err := os.ReadFile(procFS{root: root}.path(id.PID) + "/stat")
	if err != nil {
		return errors.Is(err, fs.ErrPermission)
	}
	s, err := parseStat(text)
	return err == nil && !s.dead() && s.startTicks == id.StartTicks
}
