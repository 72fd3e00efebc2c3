// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package symbol

import (
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
)

// On other platforms than Linux there is no Symbolizer; New returns an error.

type procfs struct{ root string }

type procDir struct {
	pid uint32
	opening
}

func newProcfs(string) (procfs, error) {
	return procfs{}, fmt.Errorf("reading /proc: %w", errors.ErrUnsupported)
}

func (procfs) dir(model.ProcessID) (*procDir, error) { return nil, errors.ErrUnsupported }

func filesToHold() int                                           { return maxOpenFiles }
func (procfs) shared(*fsUser, origin, string) (candidate, error) { return nil, errors.ErrUnsupported }
func (procfs) own(*viewer, origin, string) (candidate, error)    { return nil, errors.ErrUnsupported }
func (*procDir) identity() (identity, error)                     { return identity{}, errors.ErrUnsupported }
func (*procDir) maps() ([]mapEntry, error)                       { return nil, errors.ErrUnsupported }
func (*procDir) locate(*mapEntry) (candidate, error)             { return nil, errors.ErrUnsupported }
func (*procDir) perfMap(model.ProcessID) (candidate, string, error) {
	return nil, "", errors.ErrUnsupported
}
func (*procDir) vdso(*mapEntry) ([]byte, bool, error) { return nil, false, errors.ErrUnsupported }
func (*procDir) close()                               {}
func (*procDir) account() budget.Account              { return budget.Unknown }
