// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/budget"
)

// NS_GET_PARENT and NS_GET_OWNER_UID of ioctl_nsfs(2), for which golang.org/x/sys/unix has no names.
const (
	nsGetParent   = 0xb702
	nsGetOwnerUID = 0xb704
	// maxNamespaces is how deep the kernel nests user namespaces, and one to spare.
	maxNamespaces = 34
)

// account is who pays for what is done for the process. It reads that anew each time: a process may change its user.
func (d *procDir) account() budget.Account {
	if owner, ok := d.namespaceOwner(); ok {
		return budget.Account(owner)
	}
	if uid, ok := d.uid(); ok {
		return budget.Account(uid)
	}
	return budget.Unknown
}

// uid is the user of the process: the owner of /proc/PID, or, if that is root since the process is not dumpable, the one in its status
// (proc_pid(5)). It is not known of a process that has exited.
func (d *procDir) uid() (uint32, bool) {
	var stat unix.Stat_t
	if err := unix.Fstat(d.fd, &stat); err != nil {
		return 0, false
	}
	if stat.Uid != 0 {
		return stat.Uid, true
	}
	who, err := d.credentials()
	return who.fs.uid, err == nil
}

// namespaceOwner is the user who created the outermost user namespace that the process is in and the receiver is not. There is none where both
// are in the same one, or the namespace cannot be read (that takes CAP_SYS_PTRACE).
func (d *procDir) namespaceOwner() (uid uint32, ok bool) {
	ns, err := openat(d.shown(), "ns/user", unix.O_RDONLY)
	if err != nil {
		return 0, false
	}
	for range maxNamespaces {
		parent, err := unix.IoctlRetInt(ns, nsGetParent)
		if err != nil { // the receiver's own: its parent is not shown
			break
		}
		if uid, err = unix.IoctlGetUint32(ns, nsGetOwnerUID); err != nil {
			unix.Close(parent) //nolint:errcheck // read only
			break
		}
		unix.Close(ns) //nolint:errcheck // read only
		ns, ok = parent, true
	}
	unix.Close(ns) //nolint:errcheck // read only
	return uid, ok
}
