// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"regexp"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// MaxRules bounds the number of sample rules: each has a bit.
const MaxRules = 64

// SamplesConfig selects the requests that are exported with their content.
type SamplesConfig struct {
	// Rules are tried in order; the first that matches applies. There are at most [MaxRules].
	Rules []Rule
	// PerSecond bounds the requests that are exported with their content in a second.
	PerSecond int
	// Limit bounds the bytes that are kept of a message, Bytes those that are kept of all messages whose exchanges have not ended.
	Limit int
	Bytes uint64
}

// Captured returns how many bytes of a message must be captured, 0 if there are no rules.
func (c *SamplesConfig) Captured() uint32 {
	if len(c.Rules) == 0 {
		return 0
	}
	return uint32(c.Limit)
}

// Rule selects requests: one matches if it fulfils all conditions that the rule has.
type Rule struct {
	// URI is matched against path and query, unless it is nil.
	URI *regexp.Regexp
	// MinDuration is the least duration of the request.
	MinDuration time.Duration
	// On4xx and On5xx, if either is set, are the statuses that match.
	On4xx, On5xx bool
	// Request and Response configure what is exported of their bodies.
	Request, Response BodyRule
}

// BodyRule configures what is exported of a body.
type BodyRule struct {
	// MaxBytes bounds its text.
	MaxBytes int
	// Charset applies where the message names none; empty: UTF-8.
	Charset string
}

// matches reports whether a request fulfils all conditions except that of the URI.
func (r *Rule) matches(e *l7.Exchange, took time.Duration) bool {
	if took < r.MinDuration {
		return false
	}
	if !r.On4xx && !r.On5xx {
		return true
	}
	switch reasonOfStatus(e.Operation.StatusClass()) {
	case ClientError:
		return r.On4xx
	case ServerError:
		return r.On5xx
	}
	return false
}

// sampler decides which requests are samples.
type sampler struct {
	config SamplesConfig
	uri    []byte // reused buffer

	second int64 // of the monotonic clock: the last in which a request was exported
	count  int   // exported in that second
}

func newSampler(config SamplesConfig) sampler { return sampler{config: config} }

// wanted returns the rules whose condition on the URI holds, one bit per rule.
func (s *sampler) wanted(path, query []byte) (rules uint64) {
	s.uri = append(s.uri[:0], path...)
	if len(query) > 0 {
		s.uri = append(append(s.uri, '?'), query...)
	}
	for i := range s.config.Rules {
		if uri := s.config.Rules[i].URI; uri == nil || uri.Match(s.uri) {
			rules |= 1 << i
		}
	}
	return rules
}

// match returns the first rule that an exchange of this duration matches, as far as it is known; nil if there is none, or if its content was
// not kept.
func (s *sampler) match(e *l7.Exchange, took time.Duration) *Rule {
	content := e.Request.Content
	if content == nil {
		return nil
	}
	for i := range s.config.Rules {
		if rule := &s.config.Rules[i]; content.For>>i&1 == 1 && rule.matches(e, took) {
			return rule
		}
	}
	return nil
}

// allowed reports whether a request that ended at this monotonic time, in ns, may be exported, and counts it then.
func (s *sampler) allowed(ended int64) bool {
	if second := ended / time.Second.Nanoseconds(); second > s.second {
		s.second, s.count = second, 0
	}
	if s.count >= s.config.PerSecond {
		return false
	}
	s.count++
	return true
}
