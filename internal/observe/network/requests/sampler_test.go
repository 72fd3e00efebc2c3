// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7"
)

// contents returns l7.Contents that keep everything.
func contents(wanted func(path, query []byte) uint64) *l7.Contents {
	return &l7.Contents{Wanted: wanted, Body: 1 << 10, Head: 1 << 10, Calls: 8, Left: 1 << 20}
}

// sampledExchange returns an exchange whose content is kept for all rules.
func sampledExchange(path string, status, ms int) *l7.Exchange {
	e := exchange(l7.RoleServer, path, status, ms)
	all := contents(nil)
	e.Request.Content, e.Response.Content = all.New(math.MaxUint64, l7.Opening{}), all.New(math.MaxUint64, l7.Opening{})
	return e
}

// TestRules checks that a request matches a rule if all of its conditions hold, and that the first rule applies.
func TestRules(t *testing.T) {
	pay := regexp.MustCompile(`^/pay\b.*[?&]slow=1`)
	for name, c := range map[string]struct {
		rules       []Rule
		path, query string
		status, ms  int
		want        int // index of the rule, or -1
	}{
		"path and query":               {[]Rule{{URI: pay}}, "/pay/1", "a=2&slow=1", 200, 1, 0},
		"another query":                {[]Rule{{URI: pay}}, "/pay/1", "a=2", 200, 1, -1},
		"no query":                     {[]Rule{{URI: regexp.MustCompile(`^/$`)}}, "/", "", 200, 1, 0},
		"long enough":                  {[]Rule{{MinDuration: 100 * time.Millisecond}}, "/", "", 200, 100, 0},
		"too short":                    {[]Rule{{MinDuration: 100 * time.Millisecond}}, "/", "", 200, 99, -1},
		"4xx":                          {[]Rule{{On4xx: true}}, "/", "", 404, 1, 0},
		"4xx, but it is 5xx":           {[]Rule{{On4xx: true}}, "/", "", 500, 1, -1},
		"5xx":                          {[]Rule{{On5xx: true}}, "/", "", 599, 1, 0},
		"either":                       {[]Rule{{On4xx: true, On5xx: true}}, "/", "", 400, 1, 0},
		"neither":                      {[]Rule{{On4xx: true, On5xx: true}}, "/", "", 302, 1, -1},
		"no status":                    {[]Rule{{On5xx: true}}, "/", "", 0, 1, -1},
		"all conditions":               {[]Rule{{URI: pay, MinDuration: time.Second, On5xx: true}}, "/pay", "slow=1", 503, 1000, 0},
		"all but the duration":         {[]Rule{{URI: pay, MinDuration: time.Second, On5xx: true}}, "/pay", "slow=1", 503, 999, -1},
		"all but the status":           {[]Rule{{URI: pay, MinDuration: time.Second, On5xx: true}}, "/pay", "slow=1", 200, 1000, -1},
		"the first of two that match":  {[]Rule{{MinDuration: 1}, {On4xx: true}}, "/", "", 404, 1, 0},
		"the second, not the first":    {[]Rule{{MinDuration: time.Second}, {On4xx: true}}, "/", "", 404, 1, 1},
		"no rule has such a condition": {nil, "/", "", 404, 1, -1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSampler(SamplesConfig{Rules: c.rules})
			e := exchange(l7.RoleServer, c.path, c.status, c.ms)
			if wanted := s.wanted([]byte(c.path), []byte(c.query)); wanted != 0 {
				e.Request.Content = contents(nil).New(wanted, l7.Opening{})
			}
			got, took := -1, time.Duration(c.ms)*time.Millisecond
			for i := range c.rules {
				if s.match(e, took) == &c.rules[i] {
					got = i
				}
			}
			require.Equal(t, c.want, got)
		})
	}
	s := newSampler(SamplesConfig{Rules: []Rule{{On4xx: true}}})
	require.Nil(t, s.match(exchange(l7.RoleServer, "/", 404, 1), time.Second), "its content was not kept")
}

// TestSamplesAreLimited checks the limits on samples per second and on their memory, and that the others are counted.
func TestSamplesAreLimited(t *testing.T) {
	s := newSampler(SamplesConfig{PerSecond: 3})
	allowed := 0
	for i := range 100 {
		if s.allowed(1000e9 + int64(i)*2e7) { // 50 in each of two seconds
			allowed++
		}
	}
	require.Equal(t, 6, allowed)
	require.False(t, s.allowed(999e9), "what has ended before makes no room")

	rules := SamplesConfig{Rules: []Rule{{On4xx: true}}, PerSecond: 10}
	e := sampledExchange("/", 404, 1)
	j := NewJournal(JournalConfig{Samples: rules, Bytes: plenty})
	require.True(t, (&JournalConfig{Samples: rules}).Enabled())
	j.Add(Connection{Subject: someone}, e, "", wall)
	size := j.Bytes()
	require.Len(t, j.Take(AsSample), 1)
	require.Zero(t, j.Bytes())
	require.Empty(t, j.Take(AsLog), "logs were not asked for")

	j = NewJournal(JournalConfig{Samples: rules, Bytes: 2 * size})
	for range 12 {
		j.Add(Connection{Subject: someone}, e, "", wall)
	}
	require.EqualValues(t, 2, decided(j).Limited())
	require.EqualValues(t, 8, decided(j).Lost(AsSample))
	require.Len(t, j.Take(AsSample), 2)
	require.Zero(t, j.Bytes())
}

// TestSamplesAreLimitedByMonotonicTime checks that the wall clock may be set back.
func TestSamplesAreLimitedByMonotonicTime(t *testing.T) {
	j := NewJournal(JournalConfig{Samples: SamplesConfig{Rules: []Rule{{On4xx: true}}, PerSecond: 1}, Bytes: plenty})
	for i := range int64(3) {
		e := sampledExchange("/", 404, 1)
		e.Request.Last += i * 1e9
		e.Response.Last += i * 1e9
		j.Add(Connection{Subject: someone}, e, "", func(ns int64) time.Time { return wall(ns).Add(-time.Duration(i) * time.Hour) })
	}
	require.Len(t, j.Take(AsSample), 3)
	require.Zero(t, decided(j).Limited())
}
