// SPDX-License-Identifier: Apache-2.0

package network

import (
	"slices"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http1"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// Role is a side of a connection.
type Role uint8

// Sides of a connection.
const (
	NoRole Role = iota
	Client      // the process that connects
	Server      // the process that accepts
)

// Config is what an observation of the network can be told.
type Config struct {
	// Only leaves out what processes do in the other role; NoRole: nothing.
	Only Role
	// MapBytes bounds the memory of the kernel's tables, SocketBytes that of what is
	// remembered of sockets.
	MapBytes, SocketBytes uint64
	// ResolveNAT asks the kernel's connection tracking who is behind an address.
	ResolveNAT bool
	// Requests has requests told: the first bytes of what connections carry are read.
	// Protocols are those that are looked for; none: all.
	Requests  bool
	Protocols []Protocol
	// BufferBytes is the size of the ring buffer for them, a power of two.
	BufferBytes uint32
	// Journal says which requests are told one by one.
	Journal requests.JournalConfig
	// SysRoot is where the host's sysfs is mounted, ProcRoot its procfs.
	SysRoot, ProcRoot string
	// Logger is warned of peers whose addresses could not be resolved.
	Logger *zap.Logger
}

// Protocol is one whose requests can be told, by the conventions' network.protocol.name.
type Protocol string

// Protocols whose requests can be told.
const (
	HTTP Protocol = http1.Name // HTTP/1.0 and 1.1
	DNS  Protocol = dns.Name
)

// looksFor tells whether the requests of a protocol are told.
func (c *Config) looksFor(p Protocol) bool {
	return len(c.Protocols) == 0 || slices.Contains(c.Protocols, p)
}
