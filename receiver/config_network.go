// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

// NetworkConfig is the kind network: connections and what they carry. Of what is
// about requests all but QueueSize and Analyzers has an effect in this version, which tells
// of HTTP, gRPC and DNS; the rest is checked.
type NetworkConfig struct {
	KindConfig `mapstructure:",squash"`
	// Role is client, server or both: whose side of connections is told.
	Role string `mapstructure:"role"`
	// Peers says who the other side is.
	Peers PeersConfig `mapstructure:"peers"`
	// Protocols and TLS are the protocols that are parsed, and the libraries that
	// are looked into.
	Protocols []string `mapstructure:"protocols"`
	TLS       []string `mapstructure:"tls"`
	// Capture is none, headers or messages: what is read of a message.
	Capture string `mapstructure:"capture"`
	// CaptureLimit is how much of a message leaves the kernel, of messages.
	CaptureLimit ByteSize `mapstructure:"capture_limit"`
	// Buffer is the ring buffer between kernel and engine, a power of two.
	Buffer ByteSize `mapstructure:"buffer"`
	// QueueSize is the number of messages that wait for an analyzer.
	QueueSize int            `mapstructure:"queue_size"`
	Analyzers int            `mapstructure:"analyzers"`
	Requests  RequestsConfig `mapstructure:"requests"`
	Redact    RedactConfig   `mapstructure:"redact"`
}

// PeersConfig says who the other side of a connection is.
type PeersConfig struct {
	// ResolveNAT asks the kernel's connection tracking who is behind an address.
	ResolveNAT bool `mapstructure:"resolve_nat"`
}

// RedactConfig says what of requests is never told.
type RedactConfig struct {
	// Headers are names of headers, in any case.
	Headers []string `mapstructure:"headers"`
	// QueryValues has SQL literals and values of URL queries and of parameters in paths replaced.
	QueryValues bool `mapstructure:"query_values"`
}

// Values of NetworkConfig.
var (
	roles     = []string{"client", "server", "both"}
	protocols = []string{"http", "http2", "mysql", "postgresql", "redis", "mongodb", "cassandra", "kafka", "rocketmq", "dns"}
	libraries = engine.TLSLibraries
	captures  = []string{captureNone, captureHeaders, captureMessages}
)

// Values of NetworkConfig.Capture.
const (
	captureNone     = "none"
	captureHeaders  = "headers"
	captureMessages = "messages"
)

const (
	minCaptureLimit ByteSize = 256
	maxCaptureLimit ByteSize = 128 << 10
	minBuffer       ByteSize = 64 << 10
	maxBuffer       ByteSize = 1 << 30
	// bufferShare is the part of limits::memory_mib that the ring buffer may take.
	bufferShare  = 4
	maxQueueSize = 1_000_000
	maxAnalyzers = 64
	// defaultAnalyzers is how many there are at most unless more are asked for.
	defaultAnalyzers = 4
	maxRedactHeaders = 256
)

func defaultNetwork() NetworkConfig {
	return NetworkConfig{
		KindConfig:   KindConfig{ReportInterval: 2 * time.Second},
		Role:         "both",
		Peers:        PeersConfig{ResolveNAT: true},
		Protocols:    slices.Clone(protocols),
		TLS:          slices.Clone(libraries),
		Capture:      captureHeaders,
		CaptureLimit: 16 << 10,
		Buffer:       8 << 20,
		QueueSize:    5000,
		Analyzers:    min(runtime.NumCPU(), defaultAnalyzers),
		Requests:     RequestsConfig{Log: logSlowOrError, Slow: 500 * time.Millisecond, Top: 10, SamplesPerSecond: defaultSamplesPerSecond},
		Redact: RedactConfig{
			Headers:     []string{"authorization", "cookie", "set-cookie", "proxy-authorization", "x-api-key"},
			QueryValues: true,
		},
	}
}

// validate checks every value; memoryMiB is limits::memory_mib.
func (c *NetworkConfig) validate(path string, memoryMiB int) []error {
	errs := c.KindConfig.validate(path)
	errs = append(errs, oneOf(path+"::role", c.Role, roles))
	errs = append(errs, eachOf(path+"::protocols", c.Protocols, protocols)...)
	errs = append(errs, eachOf(path+"::tls", c.TLS, libraries)...)
	errs = append(errs, oneOf(path+"::capture", c.Capture, captures),
		between(path+"::capture_limit", c.CaptureLimit, minCaptureLimit, maxCaptureLimit),
		c.validateBuffer(path+"::buffer", memoryMiB),
		between(path+"::queue_size", c.QueueSize, 1, maxQueueSize),
		between(path+"::analyzers", c.Analyzers, 1, maxAnalyzers))
	errs = append(errs, c.Requests.validate(path+"::requests", c)...)
	return append(errs, c.Redact.validate(path+"::redact")...)
}

// validateBuffer checks the size of the ring buffer, also against the memory that
// the receiver may take, where that is allowed itself.
func (c *NetworkConfig) validateBuffer(path string, memoryMiB int) error {
	if err := between(path, c.Buffer, minBuffer, maxBuffer); err != nil {
		return err
	}
	if c.Buffer&(c.Buffer-1) != 0 {
		return fmt.Errorf("%s: %v is not allowed: it must be a power of two", path, c.Buffer)
	}
	if share := ByteSize(memoryMiB) << 20 / bufferShare; memoryMiB >= minMemoryMiB && c.Buffer > share {
		return fmt.Errorf("%s: %v is not allowed: it may be a quarter of limits::memory_mib at most, which is %v", path, c.Buffer, share)
	}
	return nil
}

func (c *RedactConfig) validate(path string) []error {
	var errs []error
	if len(c.Headers) > maxRedactHeaders {
		errs = append(errs, fmt.Errorf("%s::headers: %d names are not allowed: at most %d", path, len(c.Headers), maxRedactHeaders))
	}
	for i, name := range c.Headers {
		if name == "" || strings.ContainsFunc(name, notToken) {
			errs = append(errs, fmt.Errorf("%s::headers[%d]: %q is not allowed: it must be the name of a header, such as authorization", path, i, name))
		}
	}
	return errs
}

// notToken tells what no name of a header has, by RFC 9110.
func notToken(r rune) bool {
	return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// oneOf checks a value against those that are allowed.
func oneOf(path, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: %q is not allowed: it must be one of %s", path, value, strings.Join(allowed, ", "))
}

// eachOf checks each of a list of values.
func eachOf(path string, values, allowed []string) []error {
	var errs []error
	for i, value := range values {
		errs = append(errs, oneOf(fmt.Sprintf("%s[%d]", path, i), value, allowed))
	}
	return errs
}

// parsed are the protocols whose requests this version tells.
var parsed = []string{"http", "http2", "dns"}

// parses returns the protocols whose requests are looked for.
func (c *NetworkConfig) parses() []string {
	if c.Capture == captureNone {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(parsed), func(name string) bool { return !slices.Contains(c.Protocols, name) })
}

// heard tells whether a pipeline takes what the kind makes: metrics, and logs and spans of
// requests.
func (c *NetworkConfig) heard(taken signals) bool {
	journal := c.journal(taken)
	return taken.metrics || journal.Tells()
}

// engine says what the engine must do for those who take what it makes.
func (c *NetworkConfig) engine(taken signals) *engine.Network {
	role := map[string]engine.Role{"client": engine.ClientRole, "server": engine.ServerRole}[c.Role]
	network := &engine.Network{
		Targets: selectors(c.Targets), ReportInterval: c.ReportInterval, Role: role, ResolveNAT: c.Peers.ResolveNAT,
		Protocols: c.parses(), BufferBytes: uint32(c.Buffer), TLS: c.TLS,
	}
	network.Requests = len(network.Protocols) > 0
	network.Journal = c.journal(taken)
	return network
}
