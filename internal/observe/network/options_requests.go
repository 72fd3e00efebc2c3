// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"regexp"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// RequestOptions configure what is exported of single requests.
type RequestOptions struct {
	// Log is none, slow_or_error or all: which requests become a log.
	Log string `mapstructure:"log"`
	// Slow is the duration from which on a request is slow.
	Slow time.Duration `mapstructure:"slow"`
	// Top is how many requests are exported for each reason, peer and interval.
	Top int `mapstructure:"top"`
	// Samples are rules for requests that are exported with their bodies.
	Samples []SampleOptions `mapstructure:"samples" most:"64"`
	// SamplesPerSecond is how many requests are exported with their bodies in a second
	// at most.
	SamplesPerSecond int `mapstructure:"samples_per_second"`
	// Spans exports requests as spans, too.
	Spans bool `mapstructure:"spans"`
}

// SampleOptions are a rule: requests that match all of its conditions are exported with
// their bodies.
type SampleOptions struct {
	// URIRegex is an RE2 pattern on the path and query, unanchored.
	URIRegex string `mapstructure:"uri_regex" condition:"true"`
	// MinDuration is the duration from which on a request matches.
	MinDuration time.Duration `mapstructure:"min_duration"`
	// On4xx and On5xx match requests whose status is one of these.
	On4xx    bool        `mapstructure:"on_4xx"`
	On5xx    bool        `mapstructure:"on_5xx"`
	Request  BodyOptions `mapstructure:"request"`
	Response BodyOptions `mapstructure:"response"`
}

// BodyOptions configure how a body is exported.
type BodyOptions struct {
	// MaxSize is how much of it; 0 for what network::capture_limit allows.
	MaxSize setting.ByteSize `mapstructure:"max_size"`
	// Encoding is that of its characters where the message names none; empty for UTF-8.
	Encoding string `mapstructure:"encoding"`
}

// logNames are the values of RequestOptions.Log.
var logNames = []string{LogNone, LogSlowOrError, LogAll}

// Values of RequestOptions.Log.
const (
	LogNone        = "none"
	LogSlowOrError = "slow_or_error"
	LogAll         = "all"
)

// whichRequests are the choices of RequestOptions.Log.
var whichRequests = map[string]requests.Which{LogNone: requests.NoRequests, LogSlowOrError: requests.SlowOrError, LogAll: requests.AllRequests}

// journal returns which requests are exported one by one, as logs and spans that a pipeline takes; none where no protocol is parsed.
func (c *Options) journal(taken observe.Signals) requests.JournalConfig {
	if len(c.parses()) == 0 {
		return requests.JournalConfig{}
	}
	redact := requests.Redaction{Headers: c.Redact.Headers, Query: c.Redact.QueryValues}
	journal := requests.JournalConfig{Slow: c.Requests.Slow, Redact: redact, Spans: c.Requests.Spans && taken.Traces && c.parsesAny(hasSpans)}
	if taken.Logs {
		journal.Which, journal.Top = whichRequests[c.Requests.Log], c.Requests.Top
	}
	if taken.Logs && c.parsesAny(hasSamples) {
		journal.Samples = c.samples()
	}
	if !journal.Enabled() {
		return requests.JournalConfig{Redact: redact} // of the metrics
	}
	return journal
}

// samples are the rules for requests that are exported with their content.
func (c *Options) samples() requests.SamplesConfig {
	if len(c.Requests.Samples) == 0 {
		return requests.SamplesConfig{}
	}
	samples := requests.SamplesConfig{PerSecond: c.Requests.SamplesPerSecond, Limit: int(c.CaptureLimit)}
	for _, rule := range c.Requests.Samples {
		r := requests.Rule{
			MinDuration: rule.MinDuration, On4xx: rule.On4xx, On5xx: rule.On5xx,
			Request: rule.Request.body(c.CaptureLimit), Response: rule.Response.body(c.CaptureLimit),
		}
		if rule.URIRegex != "" {
			r.URI = regexp.MustCompile(rule.URIRegex) // it was validated
		}
		samples.Rules = append(samples.Rules, r)
	}
	return samples
}

func (c *BodyOptions) body(limit setting.ByteSize) requests.BodyRule {
	return requests.BodyRule{MaxBytes: int(cmp.Or(c.MaxSize, limit)), Charset: c.Encoding}
}

const (
	minSlow    = time.Millisecond
	maxSlow    = time.Hour
	maxTop     = 1000
	maxSamples = requests.MaxRules
	// defaultSamplesPerSecond of bodies of some KiB take some ms of CPU time.
	defaultSamplesPerSecond = 20
	maxSamplesPerSecond     = 1000
)

// validate checks every value against what network captures.
func (c *RequestOptions) validate(path string, network *Options) []error {
	errs := []error{
		setting.OneOf(path+"::log", c.Log, logNames),
		setting.Between(path+"::slow", c.Slow, minSlow, maxSlow),
		setting.Between(path+"::top", c.Top, 0, maxTop),
		setting.Between(path+"::samples_per_second", c.SamplesPerSecond, 1, maxSamplesPerSecond),
	}
	if len(c.Samples) > 0 && network.Capture != CaptureMessages {
		errs = append(errs, fmt.Errorf("%s::samples: not allowed where capture is %s: bodies are read under capture messages alone", path, network.Capture))
	}
	if len(c.Samples) > maxSamples {
		errs = append(errs, fmt.Errorf("%s::samples: %d rules are not allowed: at most %d", path, len(c.Samples), maxSamples))
	}
	for i := range c.Samples {
		errs = append(errs, c.Samples[i].validate(fmt.Sprintf("%s::samples[%d]", path, i), network.CaptureLimit)...)
	}
	return errs
}

func (c *SampleOptions) validate(path string, limit setting.ByteSize) []error {
	errs := []error{setting.Between(path+"::min_duration", c.MinDuration, 0, maxSlow)}
	if c.URIRegex == "" && c.MinDuration == 0 && !c.On4xx && !c.On5xx {
		errs = append(errs, fmt.Errorf("%s: no condition: at least one of uri_regex, min_duration, on_4xx and on_5xx is needed", path))
	}
	if _, err := regexp.Compile(c.URIRegex); err != nil {
		errs = append(errs, fmt.Errorf("%s::uri_regex: compiling the RE2 pattern: %w", path, err))
	}
	errs = append(errs, c.Request.validate(path+"::request", limit)...)
	return append(errs, c.Response.validate(path+"::response", limit)...)
}

func (c *BodyOptions) validate(path string, limit setting.ByteSize) []error {
	errs := []error{setting.Between(path+"::max_size", c.MaxSize, 0, limit)}
	if c.Encoding != "" && !requests.KnowsCharset(c.Encoding) {
		errs = append(errs, fmt.Errorf("%s::encoding: %q is not allowed: it must be the name of a character encoding by the Encoding Standard, such as utf-8", path, c.Encoding))
	}
	return errs
}
