// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kernel"
)

// answerBytes is more than the kernel reports of a connection.
const answerBytes = 8 << 10

// conn is a netlink socket to the connection tracking of one network namespace.
//
// Libraries wait for the end of a list if an answer has the flag NLM_F_MULTI. The kernel sets it for single entries too, without an end.
type conn struct {
	fd       int
	sequence uint32
	buffer   []byte
}

// dial opens a socket in the network namespace of this thread.
func dial(patience time.Duration) (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, explain(err)
	}
	limit := unix.NsecToTimeval(patience.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return nil, errors.Join(explain(err), unix.Close(fd))
	}
	return &conn{fd: fd, buffer: make([]byte, answerBytes)}, nil
}

func (c *conn) close() error { return unix.Close(c.fd) }

// otherSide asks about one flow. Local is where its packets come from. not found: connection tracking does not know it.
func (c *conn) otherSide(flow Flow) (other Flow, found bool, err error) {
	c.sequence++
	question, err := request(flow, c.sequence)
	if err != nil {
		return Flow{}, false, err
	}
	if err := unix.Sendto(c.fd, question, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return Flow{}, false, explain(err)
	}
	answer, err := c.receive()
	if errors.Is(err, unix.ENOENT) {
		return Flow{}, false, nil
	}
	if err != nil {
		return Flow{}, false, explain(err)
	}
	other, err = otherSide(flow, answer)
	return other, err == nil, err
}

// receive waits for the answer to the last request. Answers to earlier ones, which came too late, are skipped.
func (c *conn) receive() ([]byte, error) {
	for {
		n, _, err := unix.Recvfrom(c.fd, c.buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		messages, err := syscall.ParseNetlinkMessage(c.buffer[:n])
		if err != nil || len(messages) != 1 {
			return nil, fmt.Errorf("%w: %d messages in %d bytes", errMalformed, len(messages), n)
		}
		m := messages[0]
		if m.Header.Seq != c.sequence {
			continue
		}
		if m.Header.Type != unix.NLMSG_ERROR {
			return m.Data, nil
		}
		if len(m.Data) < 4 {
			return nil, fmt.Errorf("%w: an error of %d bytes", errMalformed, len(m.Data))
		}
		return nil, unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
	}
}

// explain adds what was tried and what may help.
func explain(err error) error {
	err = fmt.Errorf("asking the kernel's connection tracking: %w", err)
	switch {
	case errors.Is(err, unix.EPERM):
		return lacking(err, kernel.CapNetAdmin)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w (this kernel has no ctnetlink, or could not load its module nf_conntrack_netlink: load it to have "+
			"translated addresses resolved)", err)
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("%w (it did not answer within %s)", err, patience)
	}
	return err
}
