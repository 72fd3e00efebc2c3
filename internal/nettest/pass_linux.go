// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// passWait is how long a program waits for the other one to be ready.
const passWait = time.Minute

// pass sends a descriptor to the socket that is bound to a path, as soon as there is
// one.
func pass(o order) (Outcome, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Outcome{}, err
	}
	defer unix.Close(fd)
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		err := unix.Sendmsg(fd, []byte{0}, unix.UnixRights(o.Socket), &unix.SockaddrUnix{Name: o.Path}, 0)
		absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
		if !absent || time.Since(began) > passWait {
			return Outcome{}, err
		}
	}
}

// receive binds to a path and takes a descriptor there.
func receive(o order) (Outcome, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Outcome{}, err
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(passWait.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return Outcome{}, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: o.Path}); err != nil {
		return Outcome{}, err
	}
	var byte1 [1]byte
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(fd, byte1[:], control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return Outcome{}, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return Outcome{}, errors.Join(fmt.Errorf("%d control messages instead of one", len(messages)), err)
	}
	passed, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(passed) != 1 {
		return Outcome{}, errors.Join(fmt.Errorf("%d descriptors instead of one", len(passed)), err)
	}
	return Outcome{Socket: passed[0]}, nil
}
