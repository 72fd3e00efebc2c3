// SPDX-License-Identifier: Apache-2.0

package warn

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// clocked is a Rarely whose time passes as the test says.
type clocked struct {
	*Rarely
	now  time.Time
	due  time.Time // when call is to be called, zero: it is not
	call func()
	logs *observer.ObservedLogs
}

func newClocked() *clocked {
	core, logs := observer.New(zapcore.WarnLevel)
	c := &clocked{now: time.Unix(0, 0), logs: logs}
	c.Rarely = NewRarely(zap.New(core), "It does not work", func() time.Time { return c.now })
	c.after = func(wait time.Duration, call func()) func() {
		c.due, c.call = c.now.Add(wait), call
		return func() { c.due = time.Time{} }
	}
	return c
}

func (c *clocked) pass(d time.Duration) {
	c.now = c.now.Add(d)
	if !c.due.IsZero() && !c.now.Before(c.due) {
		c.due = time.Time{}
		c.call()
	}
}

// told takes what was logged: for each warning its errors and how many were only counted.
func (c *clocked) told(t *testing.T) (all []string) {
	for _, entry := range c.logs.TakeAll() {
		require.Equal(t, "It does not work", entry.Message)
		fields := entry.ContextMap()
		line := fields["error"]
		if further, ok := fields["further_errors"]; ok {
			line = fmt.Sprint(line, " ", further)
		}
		all = append(all, fmt.Sprint(line, " +", fields["similar_warnings_held_back"]))
	}
	return all
}

func TestRarely(t *testing.T) {
	c := newClocked()
	warn := func(text string) bool { return c.Warn(errors.New(text)) }
	require.True(t, warn("one"))
	require.Equal(t, []string{"one +0"}, c.told(t), "the first is told at once")
	require.True(t, warn("two"))
	c.pass(pause - 1)
	require.Empty(t, c.told(t), "held back")
	c.pass(1)
	require.Equal(t, []string{"two +0"}, c.told(t), "and told though nothing else came")
	c.pass(pause)
	require.Empty(t, c.told(t), "once")
	require.True(t, warn("three"))
	require.Equal(t, []string{"three +0"}, c.told(t), "at once after a pause")
}

// TestRarelyMany has many errors at once: the first few that differ are named, the others counted, in one warning.
func TestRarelyMany(t *testing.T) {
	c := newClocked()
	for i := range 10 {
		require.Equal(t, i < 6, c.Warn(fmt.Errorf("file %d", i)), "%d", i)
		if i < 3 {
			require.True(t, c.Warn(fmt.Errorf("file %d", max(i, 1))), "is named already")
		}
	}
	require.Equal(t, []string{"file 0 +0"}, c.told(t))
	c.pass(pause)
	require.Equal(t, []string{"file 1 [file 2 file 3 file 4 file 5] +7"}, c.told(t))
}

func TestRarelyClose(t *testing.T) {
	c := newClocked()
	c.Close()
	require.Empty(t, c.told(t))
	c.Warn(errors.New("one"))
	c.Warn(errors.New("two"))
	c.Close()
	require.Equal(t, []string{"one +0", "two +0"}, c.told(t))
	require.True(t, c.due.IsZero(), "nothing comes later")
}

func TestRarelyByTheClock(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	r := NewRarely(zap.New(core), "It does not work", nil)
	called := make(chan struct{})
	stop := r.after(0, func() { close(called) })
	<-called
	stop()
	require.True(t, r.Warn(errors.New("one")))
	require.Equal(t, 1, logs.Len())
}
