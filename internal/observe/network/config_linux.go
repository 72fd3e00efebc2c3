// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// Config configures an observation of the network.
type Config struct {
	// Only leaves out what processes do in the other role; NoRole leaves out nothing.
	Only Role
	// Peers is the detail in which metrics have the peers of connections.
	Peers requests.PeerDetail
	// ByInstance reports metrics by service instance, whose counts stay when its processes exit; else by process.
	ByInstance bool
	// ExponentialHistograms makes histograms use exponential buckets.
	ExponentialHistograms bool
	// MapBytes bounds the memory of the kernel's tables, SocketBytes that of the state of sockets.
	MapBytes, SocketBytes uint64
	// ResolveNAT resolves translated addresses by the kernel's connection tracking.
	ResolveNAT bool
	// Requests reports requests: the first bytes of what connections carry are captured. Protocols are those that are parsed; none: all.
	Requests  bool
	Protocols []Protocol
	// ConnectionBytes bounds the memory of connections that are parsed for requests. They may always take minConnected.
	ConnectionBytes uint64
	// RequestBytes bounds the memory of the series that requests are counted in, of their points in a report and in an exporter; 0: there are
	// as many as [requests.Totals] allows.
	RequestBytes uint64
	// BufferBytes is the size of the ring buffer for requests, a power of two.
	BufferBytes uint32
	// TLS configures what of requests is captured before it is encrypted.
	TLS TLSConfig
	// Journal configures which requests are exported one by one.
	Journal requests.JournalConfig
	// Answered, if not nil, is called for each HTTP request that a process has answered. OnlyAnswered reports nothing else of requests. It
	// must return soon.
	Answered     func(Answer)
	OnlyAnswered bool
	// Paths, if not nil, selects the HTTP/1 requests that leave the kernel, if OnlyAnswered is set: only those that processes answer are
	// needed then.
	Paths *Paths
	// left, if not nil, is called for each transfer that leaves the kernel for Requests, with its process and its bytes; exchanged for each
	// exchange that is parsed from it.
	left      func(pid, length uint32, carried int)
	exchanged func(pid uint32, e *l7.Exchange)
	// interval is how often the ring buffer is read for Requests; 0: the default.
	interval time.Duration
	// quiet is how long a socket that sent a datagram may wait for the response, and how often sockets are checked for that; 0: the default.
	quiet time.Duration
	// patience, if not nil, is orderPatience in ns: tests know when all is recorded.
	patience *atomic.Int64
	// Charge runs work outside of Drain and Report and accounts for its cost; nil: no accounting.
	Charge func(work func())
	// SysRoot is where the host's sysfs is mounted, ProcRoot its procfs.
	SysRoot, ProcRoot string
	// Logger logs warnings of peers whose addresses could not be resolved.
	Logger *zap.Logger
}

// looksFor reports whether the requests of a protocol are reported.
func (c *Config) looksFor(p Protocol) bool {
	return len(c.Protocols) == 0 || slices.Contains(c.Protocols, p)
}

// TLSConfig configures the observation of TLS libraries.
type TLSConfig struct {
	// Libraries are those that are attached to; none: no library.
	Libraries []tls.Library
	// Decide returns the process that has a pid now, and whether it is in scope.
	Decide func(pid uint32) (id model.ProcessID, inScope bool)
	// Open reads the mappings of a process.
	Open func(id model.ProcessID) (*symbol.AddressSpace, error)
	// Charge runs work done for the observation and accounts for its cost.
	Charge func(work func())
	// Unavailable is called once for each library that should be attached to, that a process in scope has, and that cannot be attached to.
	// nil: not called.
	Unavailable func(library tls.Library, why error)
	// Plain does not use uprobe sessions, as on kernels without them.
	Plain bool
}

// readsTLS reports whether there is any library to attach to.
func (c Config) readsTLS() bool { return c.Requests && len(c.TLS.Libraries) > 0 }
