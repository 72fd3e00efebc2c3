// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
)

// States of sockets in /proc/net, see include/net/tcp_states.h. A UDP socket
// that is bound but not connected is "closed".
const (
	stateListen = "0A"
	stateClose  = "07"
)

// maxSocketTable bounds what is read of one table: about 100,000 sockets.
const maxSocketTable = 16 << 20

// errTooManySockets: only a part of a table was read.
var errTooManySockets = errors.New("it has more sockets than are read")

// socketTable is a file below /proc/PID/net.
type socketTable struct {
	name, state string
	// sorted: the kernel lists the listening sockets before all others
	// (tcp_seq_start of net/ipv4/tcp_ipv4.c), so that reading can stop there.
	sorted bool
	// optional: it does not exist where IPv6 is disabled.
	optional bool
}

var socketTables = []socketTable{
	{name: "net/tcp", state: stateListen, sorted: true},
	{name: "net/tcp6", state: stateListen, sorted: true, optional: true},
	{name: "net/udp", state: stateClose},
	{name: "net/udp6", state: stateClose, optional: true},
}

// parse adds the inodes of the sockets that listen on one of the wanted ports.
func (t socketTable) parse(r io.Reader, wanted map[uint16]bool, sockets map[uint64]uint16) error {
	limited := &io.LimitedReader{R: r, N: maxSocketTable}
	lines := bufio.NewScanner(limited)
	lines.Scan() // the heading
	for lines.Scan() {
		port, state, inode, ok := parseSocket(lines.Bytes())
		if !ok {
			continue
		}
		if string(state) != t.state {
			if t.sorted {
				return nil
			}
			continue
		}
		if wanted[port] && inode != 0 {
			sockets[inode] = port
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if limited.N == 0 {
		return errTooManySockets
	}
	return nil
}

// Fields of a line, counted from 0: sl local_address rem_address st queues
// timer retrnsmt uid timeout inode.
const (
	socketLocal = 1
	socketState = 3
	socketInode = 9
)

func parseSocket(line []byte) (port uint16, state []byte, inode uint64, ok bool) {
	for field := 0; field <= socketInode; field++ {
		line = bytes.TrimLeft(line, " ")
		word, rest, _ := bytes.Cut(line, []byte{' '})
		line = rest
		switch field {
		case socketLocal:
			_, digits, _ := bytes.Cut(word, []byte{':'})
			n, err := strconv.ParseUint(string(digits), 16, 16)
			if err != nil {
				return 0, nil, 0, false
			}
			port = uint16(n)
		case socketState:
			state = word
		case socketInode:
			inode, ok = decimal(word)
		}
	}
	return port, state, inode, ok
}
