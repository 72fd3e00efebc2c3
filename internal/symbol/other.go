// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package symbol

import (
	"errors"
	"fmt"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// Elsewhere than on Linux there is no Symbolizer; New says so.

type procfs struct{}

type procDir struct{ pid uint32 }

type ksyms struct{ text span }

func newProcfs(string) (procfs, error) {
	return procfs{}, fmt.Errorf("reading /proc: %w", errors.ErrUnsupported)
}

func openKsyms() (*ksyms, error)                     { return nil, errors.ErrUnsupported }
func (*ksyms) ask([]uint64, []kernelFunction) error  { return errors.ErrUnsupported }
func (*ksyms) close() error                          { return nil }
func (procfs) dir(model.ProcessID) (*procDir, error) { return nil, errors.ErrUnsupported }
func cpuTimeOf(work func()) time.Duration {
	work()
	return 0
}

func filesToHold() int { return maxOpenFiles }
func (procfs) beside(model.ProcessID, string) (candidate, error) {
	return nil, errors.ErrUnsupported
}
func (procfs) modules() ([]byte, error)                { return nil, errors.ErrUnsupported }
func (procfs) kallsyms(int, int) (*kernelTable, error) { return nil, errors.ErrUnsupported }
func (procfs) noteID(...string) string                 { return "" }
func (*procDir) maps() ([]mapEntry, error)             { return nil, errors.ErrUnsupported }
func (*procDir) locate(*mapEntry) (candidate, error)   { return nil, errors.ErrUnsupported }
func (*procDir) perfMap(model.ProcessID) (candidate, string, error) {
	return nil, "", errors.ErrUnsupported
}
func (*procDir) vdso(*mapEntry) ([]byte, error) { return nil, errors.ErrUnsupported }
func (*procDir) close()                         {}
