// SPDX-License-Identifier: Apache-2.0

package network

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/dns"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol/http1"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
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
	// ConnectionBytes bounds the memory of connections that are followed for them, which may be
	// minConnected in any case.
	ConnectionBytes uint64
	// BufferBytes is the size of the ring buffer for them, a power of two.
	BufferBytes uint32
	// TLS says what is read of requests before it is encrypted.
	TLS TLSConfig
	// Journal says which requests are told one by one.
	Journal requests.JournalConfig
	// Answered, if not nil, is told of each request of HTTP that a process has answered, and
	// OnlyAnswered has nothing else told of requests. It must return soon.
	Answered     func(Answer)
	OnlyAnswered bool
	// Paths, if not nil, are those to which requests of HTTP/1 leave the kernel, where OnlyAnswered
	// says that no others than those are wanted that processes answer.
	Paths *Paths
	// left, if not nil, is told of each transfer that leaves the kernel for Requests: whose it is, and
	// its bytes; exchanged of what is made of it.
	left      func(pid, length uint32, carried int)
	exchanged func(pid uint32, e *l7.Exchange)
	// interval is how often the ring buffer is read for Requests; 0: as often as it takes.
	interval time.Duration
	// quiet is how long who asked by a datagram is thought to wait, and how often is looked for who has waited for that; 0: as long as
	// it takes.
	quiet time.Duration
	// Charge runs what is done beside Drain and Report and notes its cost; nil: nobody
	// wants to know.
	Charge func(work func())
	// SysRoot is where the host's sysfs is mounted, ProcRoot its procfs.
	SysRoot, ProcRoot string
	// Logger is warned of peers whose addresses could not be resolved.
	Logger *zap.Logger
}

// Protocol is one whose requests can be told, as it is configured.
type Protocol string

// Protocols whose requests can be told.
const (
	HTTP  Protocol = http1.Name // HTTP/1.0 and 1.1
	HTTP2 Protocol = "http2"    // and gRPC
	DNS   Protocol = dns.Name
)

// looksFor tells whether the requests of a protocol are told.
func (c *Config) looksFor(p Protocol) bool {
	return len(c.Protocols) == 0 || slices.Contains(c.Protocols, p)
}

// TLSConfig is what the observation of TLS libraries can be told.
type TLSConfig struct {
	// Libraries are those that are attached to; none: nothing is.
	Libraries []tls.Library
	// Decide says who has a pid now, and whether it is in scope.
	Decide func(pid uint32) (id model.ProcessID, inScope bool)
	// Open reads the mappings of a process.
	Open func(id model.ProcessID) (*symbol.AddressSpace, error)
	// Charge runs work done for the observation and notes its cost.
	Charge func(work func())
	// Unavailable is told of a library that is to be attached to, that a process in scope has, and
	// that nothing can be attached to; once of each. nil: nobody wants to know.
	Unavailable func(library tls.Library, why error)
	// Plain does without sessions of uprobes, as on kernels that have none.
	Plain bool
}

// readsTLS tells whether there is anything to attach to.
func (c Config) readsTLS() bool { return c.Requests && len(c.TLS.Libraries) > 0 }
