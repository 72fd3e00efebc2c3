// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// vdso reads the image of a vDSO: from this process, when the kernel maps the
// same one here, else from the process itself.
func (d *procDir) vdso(e *mapEntry) ([]byte, error) {
	own := &procDir{procfs: d.procfs, thread: -1}
	var err error
	if own.fd, err = open("/proc/self", unix.O_PATH|unix.O_DIRECTORY); err == nil {
		defer own.close()
		if img := own.sameVDSO(e); img != nil {
			return img, nil
		}
	}
	return d.memory(e.start, int(e.end-e.start))
}

// sameVDSO gives this process's own image when it has the same key.
func (d *procDir) sameVDSO(e *mapEntry) []byte {
	entries, err := d.maps()
	if err != nil {
		return nil // the other process is asked then
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
