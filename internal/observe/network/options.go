// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/tls"
)

// Options configure the kind network: connections and what they carry. All options of
// requests but QueueSize and Analyzers have an effect in this version, which parses HTTP, gRPC and
// DNS; those two are only validated.
type Options struct {
	observe.Common `mapstructure:",squash"`
	// Role is client, server or both: the side of connections that is exported.
	Role string `mapstructure:"role"`
	// Peers configures how the other side is described.
	Peers PeerOptions `mapstructure:"peers"`
	// Protocols and TLS are the protocols that are parsed, and the libraries that
	// are attached to.
	Protocols []string `mapstructure:"protocols"`
	TLS       []string `mapstructure:"tls"`
	// Capture is none, headers or messages: what is read of a message.
	Capture string `mapstructure:"capture"`
	// CaptureLimit is how much of a message leaves the kernel, of messages.
	CaptureLimit setting.ByteSize `mapstructure:"capture_limit"`
	// Buffer is the ring buffer between kernel and engine, a power of two.
	Buffer setting.ByteSize `mapstructure:"buffer"`
	// QueueSize is the number of messages that wait for an analyzer.
	QueueSize int            `mapstructure:"queue_size"`
	Analyzers int            `mapstructure:"analyzers"`
	Requests  RequestOptions `mapstructure:"requests"`
	Redact    RedactOptions  `mapstructure:"redact"`
}

// PeerOptions configure how the other side of a connection is described.
type PeerOptions struct {
	// ResolveNAT resolves translated addresses through the kernel's connection tracking.
	ResolveNAT bool `mapstructure:"resolve_nat"`
	// Detail is how metrics describe the other side: service, address, process or none.
	Detail string `mapstructure:"detail"`
}

// peerDetails are the values of PeerOptions.Detail; peerDetailNames lists them for errors.
var (
	peerDetails = map[string]requests.PeerDetail{
		detailService: requests.PeerService, "address": requests.PeerAddress, "process": requests.PeerProcess, "none": requests.PeerNone,
	}
	peerDetailNames = []string{detailService, "address", "process", "none"}
)

// detailService is the default of PeerOptions.Detail.
const detailService = "service"

// RedactOptions configure what of requests is never exported.
type RedactOptions struct {
	// Headers are names of headers, in any case; one that begins or ends with * stands for all that end or begin with the rest.
	Headers []string `mapstructure:"headers" most:"256"`
	// QueryValues has SQL literals and values of URL queries and of parameters in paths replaced.
	QueryValues bool `mapstructure:"query_values"`
}

// Values of Options.
var (
	roleValues     = []string{"client", "server", "both"}
	protocolValues = protocol.Names()
	libraryValues  = namesOf(tls.Libraries)
	captureValues  = []string{CaptureNone, CaptureHeaders, CaptureMessages}
)

// Values of Options.Capture.
const (
	CaptureNone     = "none"
	CaptureHeaders  = "headers"
	CaptureMessages = "messages"
)

const (
	minCaptureLimit setting.ByteSize = 256
	maxCaptureLimit setting.ByteSize = 128 << 10
	minBufferSize   setting.ByteSize = 64 << 10
	maxBufferSize   setting.ByteSize = 1 << 30
	maxQueueSize                     = 1_000_000
	maxAnalyzers                     = 64
	// defaultAnalyzers is how many there are at most unless more are asked for.
	defaultAnalyzers = 4
	maxRedactHeaders = 256
)

// DefaultOptions returns the default configuration.
func DefaultOptions() *Options {
	return &Options{
		Common:       observe.Common{ReportInterval: 2 * time.Second},
		Role:         "both",
		Peers:        PeerOptions{ResolveNAT: true, Detail: detailService},
		Protocols:    slices.Clone(protocolValues),
		TLS:          slices.Clone(libraryValues),
		Capture:      CaptureHeaders,
		CaptureLimit: 16 << 10,
		Buffer:       8 << 20,
		QueueSize:    5000,
		Analyzers:    min(runtime.NumCPU(), defaultAnalyzers),
		Requests:     RequestOptions{Log: LogSlowOrError, Slow: 500 * time.Millisecond, Top: 10, SamplesPerSecond: defaultSamplesPerSecond},
		Redact: RedactOptions{
			Headers:     requests.CredentialHeaders(),
			QueryValues: true,
		},
	}
}

// Validate implements [observe.Options].
func (c *Options) Validate(path string, limits observe.Limits) []error {
	errs := c.ValidateCommon(path)
	errs = append(errs, setting.OneOf(path+"::role", c.Role, roleValues), setting.OneOf(path+"::peers::detail", c.Peers.Detail, peerDetailNames))
	errs = append(errs, setting.EachOf(path+"::protocols", c.Protocols, protocolValues)...)
	errs = append(errs, setting.EachOf(path+"::tls", c.TLS, libraryValues)...)
	errs = append(errs, setting.OneOf(path+"::capture", c.Capture, captureValues),
		setting.Between(path+"::capture_limit", c.CaptureLimit, minCaptureLimit, maxCaptureLimit),
		c.validateBuffer(path+"::buffer", limits.MemoryMiB),
		setting.Between(path+"::queue_size", c.QueueSize, 1, maxQueueSize),
		setting.Between(path+"::analyzers", c.Analyzers, 1, maxAnalyzers))
	errs = append(errs, c.Requests.validate(path+"::requests", c)...)
	return append(errs, c.Redact.validate(path+"::redact")...)
}

// validateBuffer checks the size of the ring buffer, also against the memory that
// the receiver may take, where that is allowed itself.
func (c *Options) validateBuffer(path string, memoryMiB int) error {
	if err := setting.Between(path, c.Buffer, minBufferSize, maxBufferSize); err != nil {
		return err
	}
	if c.Buffer&(c.Buffer-1) != 0 {
		return fmt.Errorf("%s: %v is not allowed: it must be a power of two", path, c.Buffer)
	}
	if share := setting.ByteSize(memoryMiB) << 20 / bufferShare; memoryMiB > 0 && c.Buffer > share {
		return fmt.Errorf("%s: %v is not allowed: it may be a quarter of limits::memory_mib at most, which is %v", path, c.Buffer, share)
	}
	return nil
}

func (c *RedactOptions) validate(path string) []error {
	var errs []error
	if len(c.Headers) > maxRedactHeaders {
		errs = append(errs, fmt.Errorf("%s::headers: %d names are not allowed: at most %d", path, len(c.Headers), maxRedactHeaders))
	}
	for i, name := range c.Headers {
		switch {
		case name == "" || strings.ContainsFunc(name, notToken):
			errs = append(errs, fmt.Errorf("%s::headers[%d]: %q is not allowed: it must be the name of a header, such as authorization", path, i, name))
		case strings.Count(name, "*") > 1 || strings.Contains(strings.Trim(name, "*"), "*"):
			errs = append(errs, fmt.Errorf("%s::headers[%d]: %q is not allowed: one * may stand at the beginning or the end, such as *-token", path, i, name))
		}
	}
	return errs
}

// notToken reports whether a header's name must not contain a character, by RFC 9110.
func notToken(r rune) bool {
	return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// parses returns the protocols whose requests are captured.
func (c *Options) parses() []string {
	if c.Capture == CaptureNone {
		return nil
	}
	return slices.DeleteFunc(protocol.Parsed(), func(name string) bool { return !slices.Contains(c.Protocols, name) })
}

// hasSpans and hasSamples report whether there are spans, and samples, of the requests of a protocol; readsTLS whether it is parsed within TLS.
func hasSpans(name string) bool   { return protocol.Find(name).HasSpans() }
func hasSamples(name string) bool { return protocol.Find(name).HasSamples() }
func readsTLS(name string) bool   { return protocol.Find(name).TLS }

// parsesAny reports whether there is a protocol among those that are captured for which is holds.
func (c *Options) parsesAny(is func(name string) bool) bool {
	return slices.ContainsFunc(c.parses(), is)
}

// protocolsWith lists the protocols for which is holds, for messages.
func protocolsWith(is func(name string) bool) string {
	return strings.Join(slices.DeleteFunc(protocol.Parsed(), func(name string) bool { return !is(name) }), " or ")
}

// wanted returns the protocols whose requests a pipeline takes. All have metrics and logs, some have spans and samples.
func (c *Options) wanted(taken observe.Signals) []string {
	journal := c.journal(taken)
	if taken.Metrics || journal.Which != requests.NoRequests || journal.Top > 0 {
		return c.parses()
	}
	if !journal.Enabled() {
		return nil
	}
	return slices.DeleteFunc(c.parses(), func(name string) bool { return !hasSpans(name) && !hasSamples(name) })
}

// Plan implements [observe.Options]: metrics, or logs or spans of requests.
func (c *Options) Plan(taken observe.Signals) observe.Plan {
	journal := c.journal(taken)
	if !taken.Metrics && !journal.Enabled() {
		return nil
	}
	plan := &Plan{
		Common: c.Common, Role: rolesByName[c.Role], ResolveNAT: c.Peers.ResolveNAT, Peers: peerDetails[c.Peers.Detail],
		BufferBytes: uint32(c.Buffer),
	}
	wanted := c.wanted(taken)
	for _, name := range wanted {
		plan.Protocols = append(plan.Protocols, Protocol(name))
	}
	if slices.ContainsFunc(wanted, readsTLS) {
		plan.TLS = namedLibraries(c.TLS)
	}
	plan.Requests = len(plan.Protocols) > 0
	plan.Journal = journal
	return plan
}

// rolesByName are the values of Options.Role; both is NoRole.
var rolesByName = map[string]Role{"client": Client, "server": Server}

func namesOf(libraries []tls.Library) []string {
	names := make([]string, len(libraries))
	for i, library := range libraries {
		names[i] = string(library)
	}
	return names
}

func namedLibraries(names []string) []tls.Library {
	var libraries []tls.Library
	for _, name := range names {
		libraries = append(libraries, tls.Library(name))
	}
	return libraries
}
