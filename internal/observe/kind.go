// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"reflect"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// Descriptor describes one kind of observation. Its package is the only one that knows more of it: the receiver, the engine, tasks and policies
// use the list of package kinds. What differs between observations of a kind is in its [Options] and [Plan].
type Descriptor struct {
	// Name is the kind's key below observe and in runs of tasks and policies.
	Name Kind
	// Scope is the kind's bit in the map of scopes, see enum scope_bit of bpf/include/process.h. Bits from 1 << 16 on are those of tasks.
	Scope uint32
	// Default returns the default configuration, a pointer to a new struct whose fields have mapstructure tags. Nil: the kind cannot be
	// configured; the engine starts it for its own use.
	Default func() Options
	// RunsByDefault: the kind runs where the configuration has no key observe.
	RunsByDefault bool
	// Pipelines are the signals that the kind exports, as the log names them: "it needs a … pipeline".
	Pipelines string
	// Samples: the kind takes samples, so that a level reduces all of its cost. It is drained together with its reports, and keeps samples in memory
	// between them.
	Samples bool
	// TracksSockets: the kind keeps tables of sockets and connections, and has a share of the memory for them.
	TracksSockets bool
	// LoadsSlowly: verifying its programs takes seconds. A policy starts it after the other kinds.
	LoadsSlowly bool
	// WholeInstance: started by a policy, the kind observes all processes of the service instance, not only the one that triggered.
	WholeInstance bool
}

// Signals are the signals of OpenTelemetry that pipelines take, or that an observation exports.
type Signals struct{ Profiles, Metrics, Logs, Traces bool }

// Limits are the limits of the receiver that configurations are validated against.
type Limits struct {
	// MemoryMiB is limits::memory_mib, 0 where its own value is not allowed.
	MemoryMiB int
}

// Options are the configuration of a kind, as the user writes it.
type Options interface {
	// Shared returns the fields that every kind has. The struct embeds [Common], which implements it.
	Shared() *Common
	// Validate checks every value. Each error begins with the path of its key; path is that of the kind.
	Validate(path string, limits Limits) []error
	// Plan returns what has to be observed for those signals that pipelines take; nil if none of what the kind exports is taken.
	Plan(taken Signals) Plan
}

// Noter is implemented by options that have something to log when they start.
type Noter interface {
	// Notes returns texts of informational log lines and of warnings. path is that of the kind, taken are the signals that pipelines take.
	Notes(path string, taken Signals) (infos, warnings []string)
}

// Plan is what one observation does. Tasks with equal plans share one observation, so that a plan holds values alone.
type Plan interface {
	// Kind is the name of its kind.
	Kind() Kind
	// Shared returns the fields that every kind has.
	Shared() *Common
	// Needs returns what the engine has to provide.
	Needs() Needs
}

// Needs are what an observation requires of the engine.
type Needs struct {
	// UserStacks: it takes user stacks, so that processes need unwind tables.
	UserStacks bool
	// Mappings: it needs to know when processes map code.
	Mappings bool
	// NetAdmin: it uses connection tracking, which needs CAP_NET_ADMIN.
	NetAdmin bool
	// Spans: it exports spans.
	Spans bool
}

// RequestSource is implemented by plans that may read the requests that policies evaluate.
type RequestSource interface {
	// ReadsAllRequests reports whether it reads all of those requests of all processes in scope.
	ReadsAllRequests() bool
}

// Common are the fields that every kind has. A kind's options embed it with the tag `mapstructure:",squash"`.
type Common struct {
	// Targets narrows the receiver's own targets; empty does not.
	Targets []process.Selector `mapstructure:"targets"`
	// ReportInterval is the time between two reports.
	ReportInterval time.Duration `mapstructure:"report_interval"`
}

const (
	minReportInterval = time.Second
	maxReportInterval = 10 * time.Minute
)

// DefaultCommon are the defaults of most kinds.
func DefaultCommon() Common { return Common{ReportInterval: 5 * time.Second} }

// Shared implements part of [Options] and [Plan].
func (c *Common) Shared() *Common { return c }

// ValidateCommon checks the values of the fields that every kind has.
func (c *Common) ValidateCommon(path string) []error {
	errs := []error{setting.Between(path+"::report_interval", c.ReportInterval, minReportInterval, maxReportInterval)}
	errs = append(errs, setting.Selectors(path+"::targets", c.Targets)...)
	return append(errs, setting.WithoutSet(path+"::targets", c.Targets)...)
}

// Untargeted returns a copy of a plan that does not narrow the processes.
func Untargeted(p Plan) Plan {
	copied := reflect.New(reflect.TypeOf(p).Elem())
	copied.Elem().Set(reflect.ValueOf(p).Elem())
	plan := copied.Interface().(Plan) //nolint:errcheck // it has the type of p
	plan.Shared().Targets = nil
	return plan
}
