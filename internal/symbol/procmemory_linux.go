// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// vdso reads the image of a vDSO: from this process, when the kernel maps the same one here, else from the process itself, which may have
// changed it.
func (d *procDir) vdso(e *mapEntry) (image []byte, sure bool, err error) {
	own := &procDir{procfs: d.procfs, thread: -1}
	if own.fd, err = open("/proc/self", unix.O_PATH|unix.O_DIRECTORY); err == nil {
		defer own.close()
		if img := own.sameVDSO(e); img != nil {
			return img, true, nil
		}
	}
	image, err = d.memory(e.start, int(e.end-e.start))
	return image, false, err
}

// sameVDSO returns this process's own image when it has the same key.
func (d *procDir) sameVDSO(e *mapEntry) []byte {
	entries, err := d.maps()
	if err != nil {
		return nil // the other process is read then
	}
	for _, own := range entries {
		if own.path == e.path && vdsoKey(&own) == vdsoKey(e) {
			if img, err := d.memory(own.start, int(own.end-own.start)); err == nil {
				return img
			}
		}
	}
	return nil
}

// memory reads n bytes of the process's memory.
func (d *procDir) memory(start uint64, n int) ([]byte, error) {
	fd, err := openat(d.shown(), "mem", unix.O_RDONLY)
	if err != nil {
		return nil, fmt.Errorf("opening /proc/%d/mem: %w", d.pid, err)
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	buf := make([]byte, n)
	if _, err := readAt(fd, buf, int64(start)); err != nil { //nolint:gosec // user addresses are positive
		return nil, fmt.Errorf("reading /proc/%d/mem at %#x: %w", d.pid, start, err)
	}
	return buf, nil
}
