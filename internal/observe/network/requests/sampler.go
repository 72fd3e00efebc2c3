// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"regexp"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// MaxRules is how many rules of samples there may be: each has a bit.
const MaxRules = 64

// SamplesConfig says which requests are told with their content.
type SamplesConfig struct {
	// Rules are tried in their order; the first that a request matches counts. There are at
	// most [MaxRules].
	Rules []Rule
	// PerSecond is how many requests are told so in a second at most.
	PerSecond int
	// Limit bounds the bytes that are kept of a message, Bytes those that are kept of all
	// messages while their exchanges have not ended.
	Limit int
	Bytes uint64
}

// Captured is how many bytes of a message must be read, 0 where there are no rules.
func (c *SamplesConfig) Captured() uint32 {
	if len(c.Rules) == 0 {
		return 0
	}
	return uint32(c.Limit)
}

// Rule says which requests match: those for which all conditions hold that it has.
type Rule struct {
	// URI is matched against path and query, unless it is nil.
	URI *regexp.Regexp
	// MinDuration is how long the request took at least.
	MinDuration time.Duration
	// On4xx and On5xx, if either is set, are the statuses that match.
	On4xx, On5xx bool
	// Request and Response say what is told of their bodies.
	Request, Response BodyRule
}

// BodyRule says what is told of a body.
type BodyRule struct {
	// MaxBytes bounds its text.
	MaxBytes int
	// Charset is that of its characters where the message names none; empty: UTF-8.
	Charset string
}

// matches tells whether the conditions hold that are not about the URI.
func (r *Rule) matches(e *l7.Exchange, took time.Duration) bool {
	if took < r.MinDuration {
		return false
	}
	if !r.On4xx && !r.On5xx {
		return true
	}
	switch reasonOfStatus(e.HTTP.Status) {
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
	uri    []byte // used again

	second  int64 // the last in which a request was told, of the monotonic clock
	told    int   // in it
	limited uint64
}

func newSampler(config SamplesConfig) sampler { return sampler{config: config} }

// wanted are the rules whose condition about the URI holds, a bit for each.
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

// match is the rule that an exchange matches which took so long, as far as that is known;
// nil where there is none, or where its content was not kept.
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

// allowed tells whether a request that has ended at this monotonic time, in ns, may be told,
// and counts it either way.
func (s *sampler) allowed(ended int64) bool {
	if second := ended / time.Second.Nanoseconds(); second > s.second {
		s.second, s.told = second, 0
	}
	if s.told >= s.config.PerSecond {
		s.limited++
		return false
	}
	s.told++
	return true
}
