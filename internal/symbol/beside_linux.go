// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

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
	fd, errHost := openBelow(root, path)
	if errHost != nil {
		return nil, errors.Join(err, errHost)
	}
	return (&procDir{procfs: p}).regular(fd, path)
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
	fd, err := d.openInRoot(path)
	if err != nil {
		return nil, err
	}
	return d.regular(fd, path)
}

// regular takes over a descriptor and refuses what is no regular file.
func (d *procDir) regular(fd int, path string) (candidate, error) {
	l, err := d.look(fd, path)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// openBelow opens a path below a folder, which no link can lead out of.
func openBelow(root int, path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(root, strings.TrimPrefix(path, "/"), &how)
		if err != unix.EINTR && err != unix.EAGAIN { //nolint:errorlint // errnos
			return fd, err
		}
	}
}
