// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol/reason"
)

// overflowID is the overflow user and group of the kernel, which stand for ids without a mapping.
const overflowID = 65534

// fsUser holds the credentials by which the kernel decides which files a process may open. A process chooses what lies at the paths that are
// opened for it, by a bind mount of its own for instance. The receiver may read more than the process, and so opens them with these.
type fsUser struct {
	uid, gid uint32
	groups   []uint32
}

// everyone stands for a process with unknown credentials: only files that every user may read are read.
func everyone() *fsUser { return &fsUser{uid: overflowID, gid: overflowID} }

// member reports whether the user is in a group.
func (u *fsUser) member(gid uint32) bool {
	if u.gid == gid {
		return true
	}
	for _, g := range u.groups {
		if g == gid {
			return true
		}
	}
	return false
}

// may evaluates the mode of a file: want is 4 to read it and 1 to search a directory. Access control lists can only permit less to the group
// than the mode shows, and are not read: it is the fallback if the kernel cannot be asked.
func (u *fsUser) may(owner, group, mode, want uint32) bool {
	switch {
	case u.uid == owner:
		mode >>= 6
	case u.member(group):
		mode >>= 3
	}
	return mode&want == want
}

// denied turns a refusal of the kernel into one that is counted as such and says what to do.
func (u *fsUser) denied(where string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return reason.New(reason.NotPermitted, fmt.Errorf("opening %s: %w for user %d of the process; it is read with the permissions of the process alone: let that user read it", where, err, u.uid))
}
