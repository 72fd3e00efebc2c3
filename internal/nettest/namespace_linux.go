// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/thread"
)

// Namespace is a network namespace of its own, with lo up.
type Namespace struct {
	file *os.File
	// links changes interfaces, addresses and routes of the namespace.
	links *netlink.Handle
}

// New makes a namespace that goes with the test and with the last process that is started in it. The test is skipped
// without root.
func New(t testing.TB) *Namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces needs root")
	}
	n := &Namespace{}
	err := thread.RunApart(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		var err error
		n.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.file.Close()) })
	n.links, err = netlink.NewHandleAt(netns.NsHandle(n.file.Fd()), unix.NETLINK_ROUTE)
	require.NoError(t, err, "opening a netlink socket in the namespace")
	t.Cleanup(n.links.Close)
	n.up(t, "lo")
	return n
}

// Inode is the namespace's number: the kernel's ns.inum, and the target of the link
// /proc/PID/ns/net.
func (n *Namespace) Inode(t testing.TB) uint64 {
	t.Helper()
	var stat unix.Stat_t
	require.NoError(t, unix.Fstat(int(n.file.Fd()), &stat))
	return stat.Ino
}

// Do runs f in the namespace, on a thread of its own. Goroutines that f starts are not in it; processes are.
func (n *Namespace) Do(f func() error) error {
	if n == nil {
		return f()
	}
	return thread.RunApart(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering a network namespace: %w", err)
		}
		return f()
	})
}

// up brings an interface up.
func (n *Namespace) up(t testing.TB, name string) netlink.Link {
	t.Helper()
	link, err := n.links.LinkByName(name)
	require.NoError(t, err, "looking for the interface %s", name)
	require.NoError(t, n.links.LinkSetUp(link), "bringing the interface %s up", name)
	return link
}
