// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"io/fs"
	"os"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Runs reports whether a process has not exited, by the procfs that is mounted at root. A process that may not be read is taken to run.
func Runs(root string, id model.ProcessID) bool {
	text, err := os.ReadFile(procFS{root: root}.path(id.PID) + "/stat")
	if err != nil {
		return errors.Is(err, fs.ErrPermission)
	}
	s, err := parseStat(text)
	return err == nil && !s.dead() && s.startTicks == id.StartTicks
}
