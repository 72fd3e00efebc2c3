// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/terminal"
)

// live shows the last data on a terminal, redrawn in place. Keys and data come from two goroutines.
type live struct {
	terminal *terminal.Terminal

	mu     sync.Mutex
	view   view
	data   data
	failed error
}

// note shows why there are no functions.
func (l *live) note(text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.data.notice = text
	return l.draw()
}

func (l *live) list(d data) error { return l.update(d) }

// update takes new data, unless the user has paused.
func (l *live) update(d data) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.view.paused {
		return l.failed
	}
	d.notice = l.data.notice
	l.data = d
	return l.draw()
}

// draw draws the current view. An error is final: the terminal was closed.
func (l *live) draw() error {
	if l.failed == nil {
		columns, lines := l.terminal.Size()
		l.failed = l.terminal.Draw(l.view.frame(l.data, columns, lines))
	}
	return l.failed
}

// keys applies keys and changes of the terminal's size until ctx ends; quit is called when the user ends the program, or the terminal was
// closed.
func (l *live) keys(ctx context.Context, quit func()) {
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, resizeSignals...)
	defer signal.Stop(resized)
	keys := l.terminal.Keys()
	for {
		select {
		case <-ctx.Done():
			return
		case <-resized:
			l.redraw(func() {})
		case k, ok := <-keys:
			end := !ok
			l.redraw(func() { end = end || l.view.press(k) })
			if end {
				quit()
				return
			}
		}
	}
}

// redraw applies a change of the view and shows it.
func (l *live) redraw(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	_ = l.draw() // update returns it, too
}

// runLive is run on a terminal.
func runLive(ctx context.Context, opts options, device string) error {
	t, err := terminal.Open(os.Stdout, device)
	if err != nil {
		return err
	}
	defer t.Close()
	l := &live{terminal: t, view: view{byTotal: opts.byTotal}}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		l.keys(ctx, cancel)
		close(ended)
	}()
	err = run(ctx, opts, l, time.Now)
	cancel()
	<-ended
	return err
}
