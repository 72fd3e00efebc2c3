// SPDX-License-Identifier: Apache-2.0

package tracecontext

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	span  = "00f067aa0ba902b7"
)

// text is a context in one line, or "" if there was none.
func text(c Context, ok bool) string {
	if !ok {
		return ""
	}
	return hex.EncodeToString(c.TraceID[:]) + " " + hex.EncodeToString(c.SpanID[:]) + " " + [...]string{"unknown", "not sampled", "sampled"}[c.Sampling]
}

// TestW3C has the examples of the recommendation, sections 3.2.3 and 3.2.2.5, and what its rules refuse.
func TestW3C(t *testing.T) {
	const (
		sampled    = trace + " " + span + " sampled"
		notSampled = trace + " " + span + " not sampled"
	)
	for value, want := range map[string]string{
		"00-" + trace + "-" + span + "-01":                                   sampled,
		"00-" + trace + "-" + span + "-00":                                   notSampled,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":            "0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 sampled",
		"00-" + trace + "-" + span + "-ff":                                   sampled, // other flags are ignored
		"00-" + trace + "-" + span + "-02":                                   notSampled,
		"01-" + trace + "-" + span + "-01":                                   sampled,
		"cc-" + trace + "-" + span + "-01-what-the-future-has":               sampled,
		"cc-" + trace + "-" + span + "-01.what":                              "",
		"00-" + trace + "-" + span + "-01-more":                              "",
		"ff-" + trace + "-" + span + "-01":                                   "",
		"0-" + trace + "-" + span + "-01":                                    "",
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":                  "",
		"00-" + trace + "-" + span + "-0G":                                   "",
		"0X-" + trace + "-" + span + "-01":                                   "",
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":                 "",
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01":                "",
		"00_" + trace + "-" + span + "-01":                                   "",
		"00-" + trace + "-" + span + "-1":                                    "",
		"00-" + trace + "-" + span + "-01, 00-" + trace + "-" + span + "-01": "",
		"": "",
	} {
		require.Equal(t, want, text(W3C([]byte(value))), value)
	}
}

// TestB3 has the examples of B3's specification, and what it does not allow.
func TestB3(t *testing.T) {
	for value, want := range map[string]string{
		"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90":   "80f198ee56343ba864fe8b2a57d3eff7 e457b5a2e4d86bd1 sampled",
		"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-0":                    "80f198ee56343ba864fe8b2a57d3eff7 e457b5a2e4d86bd1 not sampled",
		"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-d":                    "80f198ee56343ba864fe8b2a57d3eff7 e457b5a2e4d86bd1 sampled",
		"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1":                      "80f198ee56343ba864fe8b2a57d3eff7 e457b5a2e4d86bd1 unknown",
		"64fe8b2a57d3eff7-e457b5a2e4d86bd1-1":                                    "000000000000000064fe8b2a57d3eff7 e457b5a2e4d86bd1 sampled",
		"0":                                                                      "", // says only that nothing is sampled
		"80f198ee56343ba864fe8b2a57d3eff7":                                       "",
		"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-2":                    "",
		"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-":                     "",
		"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3":               "",
		"80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1-05e3ac9a4f6e3b90-1": "",
		"80f198ee56343ba864fe8b2a57d3eff-e457b5a2e4d86bd1-1":                     "",
		"": "",
	} {
		require.Equal(t, want, text(B3([]byte(value))), value)
	}
}

func TestB3Multi(t *testing.T) {
	for _, c := range []struct{ trace, span, sampled, flags, want string }{
		{"80f198ee56343ba864fe8b2a57d3eff7", "e457b5a2e4d86bd1", "1", "", "80f198ee56343ba864fe8b2a57d3eff7 e457b5a2e4d86bd1 sampled"},
		{"463AC35C9F6413AD", "A2FB4A1D1A96D312", "0", "", "0000000000000000463ac35c9f6413ad a2fb4a1d1a96d312 not sampled"},
		{"463ac35c9f6413ad", "a2fb4a1d1a96d312", "", "1", "0000000000000000463ac35c9f6413ad a2fb4a1d1a96d312 sampled"},
		{"463ac35c9f6413ad", "a2fb4a1d1a96d312", "true", "0", "0000000000000000463ac35c9f6413ad a2fb4a1d1a96d312 sampled"},
		{"463ac35c9f6413ad", "a2fb4a1d1a96d312", "", "", "0000000000000000463ac35c9f6413ad a2fb4a1d1a96d312 unknown"},
		{"463ac35c9f6413ad", "a2fb4a1d1a96d312", "yes", "", ""},
		{"463ac35c9f6413ad", "", "1", "", ""},
		{"", "a2fb4a1d1a96d312", "1", "", ""},
		{"0000000000000000", "a2fb4a1d1a96d312", "1", "", ""},
	} {
		require.Equal(t, c.want, text(B3Multi([]byte(c.trace), []byte(c.span), []byte(c.sampled), []byte(c.flags))), c)
	}
}

// TestSW8 has the example of SkyWalking's protocol, and values that are none.
func TestSW8(t *testing.T) {
	const example = "1-TRACEID-SEGMENTID-3-PARENT_SERVICE-PARENT_INSTANCE-PARENT_ENDPOINT-IPPORT"
	value := strings.NewReplacer("TRACEID", "YWJj", "SEGMENTID", "ZGVm", "PARENT_SERVICE", "c2hvcA==", "PARENT_INSTANCE", "c2hvcEAx",
		"PARENT_ENDPOINT", "L3BheQ==", "IPPORT", "MTAuMC4wLjE6ODA=").Replace(example)
	got, ok := SW8([]byte(value))
	require.True(t, ok)
	require.Equal(t, SkyWalking{Sampling: Sampled, TraceID: []byte("abc"), SegmentID: []byte("def"), SpanID: 3, Service: []byte("shop"),
		ServiceInstance: []byte("shop@1"), Endpoint: []byte("/pay"), TargetAddress: []byte("10.0.0.1:80")}, got)
	for _, bad := range []string{"", "0", example, "2" + value[1:], value + "-x", value[:strings.LastIndexByte(value, '-')],
		strings.Replace(value, "-3-", "--", 1), strings.Replace(value, "-3-", "-x-", 1), strings.Replace(value, "YWJj", "", 1)} {
		_, ok := SW8([]byte(bad))
		require.False(t, ok, bad)
	}
}

func TestReadingAllocatesNothing(t *testing.T) {
	w3c, b3 := []byte("00-"+trace+"-"+span+"-01"), []byte(trace+"-"+span+"-1")
	require.Zero(t, testing.AllocsPerRun(100, func() { W3C(w3c); B3(b3); B3Multi(b3[:32], b3[33:49], nil, nil) }))
}

func FuzzValues(f *testing.F) {
	f.Add([]byte("00-" + trace + "-" + span + "-01"))
	f.Add([]byte(trace + "-" + span + "-1"))
	f.Add([]byte("1-YWJj-ZGVm-3-c2hvcA==-c2hvcEAx-L3BheQ==-MTAuMC4wLjE6ODA="))
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, read := range []func([]byte) (Context, bool){W3C, B3} {
			c, ok := read(value)
			require.Equal(t, ok, c.TraceID != [16]byte{})
			require.Equal(t, ok, c.SpanID != [8]byte{})
		}
		c, ok := SW8(value)
		require.Equal(t, ok, len(c.TraceID) > 0 && len(c.SegmentID) > 0)
	})
}
