// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseStat(t *testing.T) {
	tests := []struct {
		name, comm, state string
		kernel            bool
		flags, threads    string
		want              string
		dead              bool
	}{
		{name: "plain", comm: "nginx", want: "nginx"},
		{name: "blank", comm: "Web Content", want: "Web Content"},
		{name: "brackets", comm: "a) R 1 (b", want: "a) R 1 (b"},
		{name: "closing bracket last", comm: "sd-pam)", want: "sd-pam)"},
		{name: "newline", comm: `a\nb`, want: "a\nb"},
		{name: "backslash and n", comm: `a\\nb`, want: `a\nb`},
		{name: "empty", comm: "", want: ""},
		{name: "not UTF-8", comm: "a\xff\xfeb", want: "a\uFFFDb"},
		{name: "kernel thread", comm: "ksoftirqd/0", flags: "2129984", kernel: true, want: "ksoftirqd/0"},
		{name: "kernel worker", comm: "kworker/0:1-events_power", flags: "2129984", kernel: true, want: "kworker/0:1"},
		{name: "busy kernel worker", comm: "kworker/u8:3+writeback", flags: "2129984", kernel: true, want: "kworker/u8:3"},
		{name: "high priority worker", comm: "kworker/1:0H-kblockd", flags: "2129984", kernel: true, want: "kworker/1:0H"},
		{name: "rescuer", comm: "kworker/R-rcu_gp", flags: "2129984", kernel: true, want: "kworker/R-rcu_gp"},
		{name: "pretended worker", comm: "kworker/0:1-x", want: "kworker/0:1-x"},
		{name: "zombie", comm: "sh", state: "Z", want: "sh", dead: true},
		{name: "zombie leader of threads", comm: "sh", state: "Z", threads: "3", want: "sh"},
		{name: "dead", comm: "sh", state: "X", want: "sh", dead: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line := statLine(tt.comm, or(tt.state, "S"), or(tt.flags, "4194304"), or(tt.threads, "1"))
			s, err := parseStat([]byte(line))
			require.NoError(t, err)
			require.Equal(t, tt.want, s.name())
			require.Equal(t, tt.kernel, s.kernel)
			require.Equal(t, tt.dead, s.dead())
			require.Equal(t, uint64(132753), s.startTicks)
		})
	}
}

func statLine(comm, state, flags, threads string) string {
	return "17612 (" + comm + ") " + state + " 17588 17588 5819 0 -1 " + flags + " 101 0 0 0 0 0 0 0 20 0 " + threads +
		" 0 132753 2998272 395 18446744073709551615 93918511239168 93918511263273 140735728517488 0 0 0\n"
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// TestParseStatExecuting checks when an exec is in progress: the stack is there before the code.
func TestParseStatExecuting(t *testing.T) {
	for _, tt := range []struct {
		name, state, flags, addresses string
		want                          bool
	}{
		{"a program", "S", "4194304", "93918511239168 93918511263273 140735728517488", false},
		{"nothing yet", "R", "4194304", "0 0 0", true},
		{"a stack", "D", "4194304", "0 0 140735728517488", true},
		{"hidden from the reader", "S", "4194304", "1 1 0", false},
		{"a kernel thread", "S", "2129984", "0 0 0", false},
		{"a leader that ended", "Z", "4194304", "0 0 0", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line := strings.Replace(statLine("sh", tt.state, tt.flags, "2"), "93918511239168 93918511263273 140735728517488", tt.addresses, 1)
			s, err := parseStat([]byte(line))
			require.NoError(t, err)
			require.Equal(t, tt.want, s.executing())
			require.Equal(t, strings.HasPrefix(tt.addresses, "0 0 "), s.image == 0)
		})
	}
}

func TestParseStatImage(t *testing.T) {
	line := statLine("sh", "S", "0", "1")
	one, err := parseStat([]byte(line))
	require.NoError(t, err)
	other, err := parseStat([]byte(strings.Replace(line, "140735728517488", "140735728517504", 1)))
	require.NoError(t, err)
	require.NotEqual(t, one.image, other.image)
	require.NotZero(t, one.image)
}

func TestParseStatMalformed(t *testing.T) {
	for _, line := range []string{
		"", "1", "1 (", "1 sh) S", ") (", "1 (sh)", "1 (sh) S 1 1 1",
		strings.Replace(statLine("sh", "S", "0", "1"), "132753", "-1", 1),
		strings.Replace(statLine("sh", "S", "0", "1"), "132753", "18446744073709551616", 1),
	} {
		_, err := parseStat([]byte(line))
		require.ErrorIs(t, err, errStat, line)
	}
}

func TestDecimal(t *testing.T) {
	n, ok := decimal([]byte("18446744073709551615"))
	require.True(t, ok)
	require.Equal(t, uint64(18446744073709551615), n)
	for _, word := range []string{"", "-1", "1a", "18446744073709551616", "99999999999999999999", "/", ":"} {
		_, ok := decimal([]byte(word))
		require.False(t, ok, word)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add(statLine("a) R 1 (b", "S", "0", "1"))
	f.Add("1 () Z")
	f.Add("1 (kworker/0:1-x) S 2 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 12 0 0 1 0 0 0")
	f.Fuzz(func(t *testing.T, line string) {
		s, err := parseStat([]byte(line))
		if err != nil {
			require.ErrorIs(t, err, errStat)
			return
		}
		require.LessOrEqual(t, len(s.stable()), len(s.comm))
		require.True(t, strings.Contains(line, string(s.comm)))
		_ = s.name()
	})
}
