// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/collector"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/bench/workload"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

// profile writes Go profiles of the Collector under the fixed load: one CPU profile of the start-up, one of the steady
// state, and the heap after both.
func (b *bench) profile(ctx context.Context) (err error) {
	if err := os.MkdirAll(b.pprof, 0o755); err != nil {
		return fmt.Errorf("creating the folder of the profiles: %w", err)
	}
	if slices.Equal(b.parts, []string{partRequests}) {
		return b.profileRequests(ctx)
	}
	load, err := b.load(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Close()) }()
	started, err := load.Start(ctx, warmUp+startUp+b.seconds+atEnd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workload.StopAll(started)) }()
	if err := sleep(ctx, warmUp); err != nil {
		return err
	}
	port, err := freeport.Get()
	if err != nil {
		return err
	}
	config := collector.Config{Receiver: &collector.Receiver{Period: period, KernelStacks: true}, PprofPort: port}
	return b.with(ctx, config, func(*collector.Collector) error {
		return b.fetchProfiles(ctx, port, []goProfile{
			{"cpu-startup.pb.gz", "profile?seconds=", startUp},
			{"cpu-steady.pb.gz", "profile?seconds=", b.seconds},
			{"heap.pb.gz", "heap?gc=", time.Second},
		})
	})
}

// goProfile is a profile of the Collector: its file, and how it is asked for.
type goProfile struct {
	name, query string
	length      time.Duration
}

func (b *bench) fetchProfiles(ctx context.Context, port int, profiles []goProfile) error {
	base := "http://127.0.0.1:" + strconv.Itoa(port) + "/debug/pprof/"
	for _, p := range profiles {
		progress("pprof: %s", p.name)
		url := base + p.query + strconv.Itoa(int(p.length.Seconds()))
		if err := fetch(ctx, url, filepath.Join(b.pprof, p.name)); err != nil {
			return fmt.Errorf("fetching %s: %w", p.name, err)
		}
	}
	return nil
}

func fetch(ctx context.Context, url, path string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %s", response.Status)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, response.Body)
	return errors.Join(err, file.Close())
}
