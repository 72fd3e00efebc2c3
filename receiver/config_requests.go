// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// RequestsConfig says what is told of single requests.
type RequestsConfig struct {
	// Log is none, slow_or_error or all: which requests become a log.
	Log string `mapstructure:"log"`
	// Slow is the duration from which on a request is slow.
	Slow time.Duration `mapstructure:"slow"`
	// Top is how many requests are told for each reason, peer and interval.
	Top int `mapstructure:"top"`
	// Samples are rules for requests that are told with their bodies.
	Samples []SampleConfig `mapstructure:"samples"`
	// SamplesPerSecond is how many requests are told so in a second at most.
	SamplesPerSecond int `mapstructure:"samples_per_second"`
	// Spans has requests told as spans, too.
	Spans bool `mapstructure:"spans"`
}

// SampleConfig is a rule: requests that match all of its conditions are told with
// their bodies.
type SampleConfig struct {
	// URIRegex is an RE2 pattern on the path and query, unanchored.
	URIRegex string `mapstructure:"uri_regex"`
	// MinDuration is the duration from which on a request matches.
	MinDuration time.Duration `mapstructure:"min_duration"`
	// On4xx and On5xx match requests whose status is one of these.
	On4xx    bool       `mapstructure:"on_4xx"`
	On5xx    bool       `mapstructure:"on_5xx"`
	Request  BodyConfig `mapstructure:"request"`
	Response BodyConfig `mapstructure:"response"`
}

// BodyConfig says how a body is told.
type BodyConfig struct {
	// MaxSize is how much of it; 0 for what network::capture_limit allows.
	MaxSize ByteSize `mapstructure:"max_size"`
	// Encoding is that of its characters where the message names none; empty for UTF-8.
	Encoding string `mapstructure:"encoding"`
}

// logs are the values of RequestsConfig.Log.
var logs = []string{logNone, logSlowOrError, logAll}

const (
	logNone        = "none"
	logSlowOrError = "slow_or_error"
	logAll         = "all"
)

// whichRequests are the choices of RequestsConfig.Log.
var whichRequests = map[string]requests.Which{logNone: requests.NoRequests, logSlowOrError: requests.SlowOrError, logAll: requests.AllRequests}

// journal says which requests are told one by one to those who take logs and spans; it
// tells none where none are looked at.
func (c *NetworkConfig) journal(taken signals) requests.JournalConfig {
	if parses := c.parses(); !slices.Contains(parses, "http") && !slices.Contains(parses, "http2") {
		return requests.JournalConfig{}
	}
	journal := requests.JournalConfig{
		Slow: c.Requests.Slow, Spans: c.Requests.Spans && taken.traces,
		Redact: requests.Redaction{Headers: c.Redact.Headers, Query: c.Redact.QueryValues},
	}
	if taken.logs {
		journal.Which, journal.Top, journal.Samples = whichRequests[c.Requests.Log], c.Requests.Top, c.samples()
	}
	if !journal.Tells() {
		return requests.JournalConfig{Redact: journal.Redact} // of the metrics
	}
	return journal
}

// samples are the rules for requests that are told with their content.
func (c *NetworkConfig) samples() requests.SamplesConfig {
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

func (c *BodyConfig) body(limit ByteSize) requests.BodyRule {
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
func (c *RequestsConfig) validate(path string, network *NetworkConfig) []error {
	errs := []error{
		oneOf(path+"::log", c.Log, logs),
		between(path+"::slow", c.Slow, minSlow, maxSlow),
		between(path+"::top", c.Top, 0, maxTop),
		between(path+"::samples_per_second", c.SamplesPerSecond, 1, maxSamplesPerSecond),
	}
	if len(c.Samples) > 0 && network.Capture != captureMessages {
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

func (c *SampleConfig) validate(path string, limit ByteSize) []error {
	errs := []error{between(path+"::min_duration", c.MinDuration, 0, maxSlow)}
	if c.URIRegex == "" && c.MinDuration == 0 && !c.On4xx && !c.On5xx {
		errs = append(errs, fmt.Errorf("%s: no condition: at least one of uri_regex, min_duration, on_4xx and on_5xx is needed", path))
	}
	if _, err := regexp.Compile(c.URIRegex); err != nil {
		errs = append(errs, fmt.Errorf("%s::uri_regex: compiling the RE2 pattern: %w", path, err))
	}
	errs = append(errs, c.Request.validate(path+"::request", limit)...)
	return append(errs, c.Response.validate(path+"::response", limit)...)
}

func (c *BodyConfig) validate(path string, limit ByteSize) []error {
	errs := []error{between(path+"::max_size", c.MaxSize, 0, limit)}
	if c.Encoding != "" && !requests.KnowsCharset(c.Encoding) {
		errs = append(errs, fmt.Errorf("%s::encoding: %q is not allowed: it must be the name of a character encoding by the Encoding Standard, such as utf-8", path, c.Encoding))
	}
	return errs
}
