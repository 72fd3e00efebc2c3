// SPDX-License-Identifier: Apache-2.0

package process

import (
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/warn"
)

// Defaults of [Config].
const (
	DefaultSettleDelay  = 100 * time.Millisecond
	DefaultLinger       = 15 * time.Second
	DefaultMaxProcesses = 131072
)

// Config configures a [Table]. The zero value includes every process.
type Config struct {
	// RootPath is where the host's file system is mounted; empty: /.
	RootPath string
	// Include and Exclude are the targets. With no Include, every process but
	// SelfPID is included.
	Include, Exclude []Selector
	// SettleDelay is how long a process must run after an exec before it is read to decide whether it is in scope, so that processes that do
	// one small thing cost nothing; 0: 100 ms.
	SettleDelay time.Duration
	// Linger is how long a process that was in scope can still be looked up after its exit; 0: 15 s. It should be longer than the longest
	// report interval.
	Linger time.Duration
	// MaxProcesses bounds the table; 0: 131072.
	MaxProcesses int
	// SelfPID is this process's pid in the host's pid namespace, see [SelfPID].
	SelfPID uint32
	// Logger may be nil. Warned holds the warnings that were logged before; nil: none.
	Logger *zap.Logger
	Warned *warn.Memory
	// Now may be nil; tests use it to advance the clock.
	Now func() time.Time
	// OnChange receives the changes of the scope, see [Change]. It may call the table. Calls do not overlap, but a call may come from any
	// goroutine that calls the table. It must not keep the slice.
	OnChange func([]Change)
}

func (c *Config) setDefaults() {
	if c.RootPath == "" {
		c.RootPath = "/"
	}
	if c.SettleDelay <= 0 {
		c.SettleDelay = DefaultSettleDelay
	}
	if c.Linger <= 0 {
		c.Linger = DefaultLinger
	}
	if c.MaxProcesses <= 0 {
		c.MaxProcesses = DefaultMaxProcesses
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnChange == nil {
		c.OnChange = func([]Change) {}
	}
}
