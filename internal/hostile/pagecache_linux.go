// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// mostCached is how much of one debug file may be in the page cache while it is read: the 16 MiB that the receiver gives up in steps, and what the kernel
// reads ahead. Each process of the attack has one file at a time.
const mostCached = 20 << 20

// pageCache watches how much of some files is in memory.
type pageCache struct {
	watching sync.WaitGroup
	stop     context.CancelFunc
	most     uint64 // bytes; read it after judge
	err      error
}

// watch polls the debug files below a folder until judge.
func (p *pageCache) watch(ctx context.Context, folder string) {
	ctx, p.stop = context.WithCancel(ctx)
	p.watching.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			sum, err := cachedBelow(folder)
			if err != nil {
				p.err = err
				return
			}
			p.most = max(p.most, sum)
		}
	})
}

// judge stops watching, and reports whether too much of so many files was in memory.
func (p *pageCache) judge(files int) error {
	p.stop()
	p.watching.Wait()
	if p.err != nil {
		return fmt.Errorf("looking at the page cache: %w", p.err)
	}
	if allowed := uint64(files) * mostCached; p.most > allowed {
		return fmt.Errorf("%d MiB of the debug files of attackers were in the page cache, at most %d are allowed", p.most>>20, allowed>>20)
	}
	return nil
}

// cachedBelow adds up what is in the page cache of the debug files in a folder.
func cachedBelow(folder string) (sum uint64, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.debug"))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			continue // its process has removed it
		}
		var stat unix.Cachestat_t
		err = unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{}, &stat, 0)
		if errClose := f.Close(); err == nil {
			err = errClose
		}
		if err != nil {
			return 0, err
		}
		sum += stat.Cache * uint64(os.Getpagesize())
	}
	return sum, nil
}
