// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"io/fs"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

const (
	// maxFamily is how many generations are searched.
	maxFamily = 16
	// initPID is the process that adopts orphans: descent from it is no relation.
	initPID = 1
)

// family finds [model.Process.Family] of a process that runs an executable, by its link exe. A process that cannot be read ends the line of
// ancestors.
func (p procFS) family(id model.ProcessID, parent uint64, exe string, buf []byte) model.ProcessID {
	for generation := 0; exe != "" && parent > initPID && parent <= 1<<31 && generation < maxFamily; generation++ {
		s, ok := p.runsSame(uint32(parent), exe, buf)
		if !ok || s.startTicks > id.StartTicks { // the pid of the exited parent was reused
			break
		}
		id, parent = model.ProcessID{PID: uint32(parent), StartTicks: s.startTicks}, s.parent
	}
	return id
}

// runsSame reads the stat of a process if it runs the executable.
func (p procFS) runsSame(pid uint32, exe string, buf []byte) (stat, bool) {
	dir, err := openDirectory(p.path(pid))
	if err != nil {
		return stat{}, false
	}
	defer dir.close() //nolint:errcheck // a directory: nothing can be lost
	link, err := dir.readLink("exe", buf[:maxPath])
	if errors.Is(err, fs.ErrNotExist) {
		link, err = p.exeOfThread(pid, buf)
	}
	if err != nil || string(link) != exe {
		return stat{}, false
	}
	n, _, err := dir.read("stat", buf)
	if err != nil {
		return stat{}, false
	}
	s, err := parseStat(buf[:n])
	s.comm = nil // it lies in the buffer
	return s, err == nil
}

// exeOfThread reads the link exe of a process whose main thread has exited.
func (p procFS) exeOfThread(pid uint32, buf []byte) ([]byte, error) {
	dir, _, err := p.shown(pid)
	if err != nil {
		return nil, err
	}
	defer dir.close() //nolint:errcheck // a directory: nothing can be lost
	return dir.readLink("exe", buf[:maxPath])
}
