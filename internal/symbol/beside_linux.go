// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// anyDevice stands for file systems that are not known before a path was followed; see mayHang.
const anyDevice = 0

// beside finds a file by its absolute path, as the process sees it or else as the host does. It must be a regular one.
func (p procfs) beside(id model.ProcessID, path string) (candidate, error) {
	c, err := p.besideProcess(id, path)
	if err == nil {
		return c, nil
	}
	root, errHost := open(p.root, unix.O_PATH|unix.O_DIRECTORY)
	if errHost != nil {
		return nil, errors.Join(err, errHost)
	}
	defer unix.Close(root) //nolint:errcheck // an O_PATH descriptor
	fd, errHost := p.openPatiently(root, path)
	if errHost != nil {
		return nil, errors.Join(err, errHost)
	}
	return (&procDir{procfs: p, thread: -1}).regular(fd, path)
}

func (p procfs) besideProcess(id model.ProcessID, path string) (candidate, error) {
	if id.PID == 0 {
		return nil, ErrProcessExited
	}
	d, err := p.dir(id)
	if err != nil {
		return nil, err
	}
	defer d.close()
	root, err := openat(d.shown(), "root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root) //nolint:errcheck // an O_PATH descriptor
	fd, err := p.openPatiently(root, path)
	if err != nil {
		return nil, err
	}
	return d.regular(fd, path)
}

// regular takes over a descriptor and refuses what is no regular file.
func (d *procDir) regular(fd int, path string) (candidate, error) {
	l, err := d.look(fd, anyDevice, path)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// openPatiently opens a path below a folder. It does not wait for a file system that does not answer.
func (p procfs) openPatiently(root int, path string) (int, error) {
	return askOf(p.files, root, anyDevice, func(own int) (int, error) { return openBelow(own, path, 0) }, closeLate)
}
