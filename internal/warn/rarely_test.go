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

// clocked is a Rarely whose clock the test advances.
type clocked struct {
	*Rarely
	now  time.Time
	due  time.Time // when call is due; zero: it is not scheduled
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

// logged returns the new log entries: for each warning its errors and how many were only counted.
func (c *clocked) logged(t *testing.T) (all []string) {
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
	require.Equal(t, []string{"one +0"}, c.logged(t), "the first is logged at once")
	require.True(t, warn("two"))
	c.pass(pause - 1)
	require.Empty(t, c.logged(t), "held back")
	c.pass(1)
	require.Equal(t, []string{"two +0"}, c.logged(t), "and logged though nothing else came")
	c.pass(pause)
	require.Empty(t, c.logged(t), "once")
	require.True(t, warn("three"))
	require.Equal(t, []string{"three +0"}, c.logged(t), "at once after a pause")
}

// TestRarelyMany warns of many errors at once: one warning names the first few that differ, and counts the others.
func TestRarelyMany(t *testing.T) {
	c := newClocked()
	for i := range 10 {
		require.Equal(t, i < 6, c.Warn(fmt.Errorf("file %d", i)), "%d", i)
		if i < 3 {
			require.True(t, c.Warn(fmt.Errorf("file %d", max(i, 1))), "is named already")
		}
	}
	require.Equal(t, []string{"file 0 +0"}, c.logged(t))
	c.pass(pause)
	require.Equal(t, []string{"file 1 [file 2 file 3 file 4 file 5] +7"}, c.logged(t))
}

func TestRarelyClose(t *testing.T) {
	c := newClocked()
	c.Close()
	require.Empty(t, c.logged(t))
	c.Warn(errors.New("one"))
	c.Warn(errors.New("two"))
	c.Close()
	require.Equal(t, []string{"one +0", "two +0"}, c.logged(t))
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

// TestRemember checks that the next component does not log what the previous one has logged, and logs all else.
func TestRemember(t *testing.T) {
	var none *Memory
	memory := none.Next()
	first := newClocked()
	first.Remember(memory)
	first.Warn(errors.New("a"))
	first.Warn(errors.New("b"))
	first.Close()
	require.Equal(t, []string{"a +0", "b +0"}, first.logged(t))

	second := newClocked()
	second.Remember(memory.Next())
	require.True(t, second.Warn(errors.New("a")))
	second.Warn(errors.New("b"))
	second.Warn(errors.New("c"))
	second.Close()
	require.Equal(t, []string{"c +2"}, second.logged(t))

	third := newClocked()
	third.Remember(second.memory.Next())
	for _, text := range []string{"a", "b", "c"} {
		third.Warn(errors.New(text))
	}
	third.Close()
	require.Empty(t, third.logged(t))

	for i := range 2 * maxRemembered {
		memory.note(fmt.Sprint(i))
	}
	require.Len(t, memory.Next().Next().before, maxRemembered)
}
