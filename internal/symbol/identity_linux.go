// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/proc"
)

// identity reads the root directory and the credentials of the process.
func (d *procDir) identity() (identity, error) {
	who, err := d.credentials()
	if err != nil {
		return identity{}, err
	}
	var mounts unix.Stat_t
	if err := unix.Fstatat(d.shown(), "ns/mnt", &mounts, 0); err != nil {
		return identity{}, d.failed("ns/mnt", err)
	}
	var root unix.Statx_t // no server of a file system is asked
	if err := unix.Statx(d.shown(), "root", unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &root); err != nil {
		return identity{}, d.failed("root", err)
	}
	device := proc.Device(uint64(root.Dev_major), uint64(root.Dev_minor))
	return identity{domain{mounts.Ino, device, root.Ino, who.fs.uid, d.account()}, &who.fs}, nil
}

// credentials returns the result of self, which is read once.
func (d *procDir) credentials() (inside, error) {
	if d.who == nil {
		who, err := d.self()
		if err != nil {
			return inside{}, err
		}
		d.who = &who
	}
	return *d.who, nil
}

// originOf is what is known of the file that was found.
func (l *located) originOf() origin {
	s := &l.stat
	return origin{
		known: true, writer: s.Uid, open: s.Mode&0o002 != 0 || s.Uid == 0 && s.Mode&0o020 != 0,
		identity: identityOf(s),
	}
}

// identityOf identifies a file in its present version.
func identityOf(s *unix.Stat_t) string {
	return fmt.Sprint("file ", s.Dev, " ", s.Ino, " ", s.Size, " ", s.Mtim.Nano(), " ", s.Ctim.Nano())
}
