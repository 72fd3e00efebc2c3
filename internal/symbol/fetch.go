// SPDX-License-Identifier: Apache-2.0

package symbol

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/debuginfo"
)

const (
	maxFetches      = 256              // binaries that wait for debug files
	fetchAgainAfter = 10 * time.Minute // a server that had none is not asked again sooner
)

// fetcher downloads debug files from servers, one after the other, concurrently to naming.
type fetcher struct {
	servers *debuginfo.Servers
	queue   chan *binary
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// startFetcher begins to fetch for a symbolizer.
func startFetcher(s *Symbolizer, servers *debuginfo.Servers) *fetcher {
	ctx, stop := context.WithCancel(context.Background())
	f := &fetcher{servers: servers, queue: make(chan *binary, maxFetches), stop: stop}
	f.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case b := <-f.queue:
				file, err := servers.Fetch(ctx, b.id.GNU)
				s.fetched(b, file, err)
			}
		}
	})
	return f
}

// close cancels the work in progress and waits for its end. The symbolizer must not be locked.
func (f *fetcher) close() {
	if f == nil {
		return
	}
	f.stop()
	f.done.Wait()
	f.servers.Close()
}

// fetch requests the debug file of a binary that has none on this host. It reports false if it must be requested again with a later address.
func (s *Symbolizer) fetch(b *binary) bool {
	now := s.now()
	if s.fetcher == nil || b.id.GNU == "" || !b.asked.IsZero() && now.Sub(b.asked) < fetchAgainAfter {
		return true
	}
	select {
	case s.fetcher.queue <- b:
		b.asked = now
		return true
	default:
		return false
	}
}

// fetched gives a binary its debug file. Its frames are made anew, so that they get their lines.
func (s *Symbolizer) fetched(b *binary, file debuginfo.File, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if !errors.Is(err, debuginfo.ErrNone) && !s.closed {
			s.badDebug(b, err)
		}
		return
	}
	if _, here := s.all[b]; !here || s.closed || s.lines.over || b.lines.arrived.Size > 0 {
		if err := file.Close(); err != nil {
			s.badDebug(b, err)
		}
		return
	}
	b.lines.arrived, b.lines.noLines, b.lines.noNames, b.lines.lacking = file, false, false, false
	s.dropViews(b)
	s.lines.enqueue(b)
	s.resetFrames(b)
}
