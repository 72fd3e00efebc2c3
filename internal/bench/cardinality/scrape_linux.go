// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/freeport"
)

const (
	// settled is longer than the default report_interval.
	settled = 5 * time.Second
	// patience is how long the distribution may take to start.
	patience = time.Minute
)

// defaults is the default configuration with a page for Prometheus, and one of the receiver's own metrics; with a selector for the load alone.
const defaults = `
receivers: {ebpf: {%s}}
exporters: {prometheus: {endpoint: %q, without_scope_info: true}}
service:
  telemetry: {metrics: {level: normal, readers: [{pull: {exporter: {prometheus: {host: 127.0.0.1, port: %d, without_type_suffix: true, without_units: true}}}}]}}
  pipelines: {metrics: {receivers: [ebpf], exporters: [prometheus]}}
`

// pages are the addresses of what is scraped.
type pages struct{ metrics, own string }

// startCollector starts the distribution, and returns its pages.
func (o *options) startCollector(ctx context.Context, folder string) (p pages, end func(), err error) {
	port, err := freeport.Get()
	if err != nil {
		return p, nil, err
	}
	ownPort, err := freeport.Get()
	if err != nil {
		return p, nil, err
	}
	endpoint := fmt.Sprintf("127.0.0.1:%d", port)
	receiver := ""
	if o.inScope {
		receiver = fmt.Sprintf("targets: {include: [{exe: %q}]}", folder+"/*")
	}
	path := filepath.Join(folder, "config.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, defaults, receiver, endpoint, ownPort), 0o644); err != nil {
		return p, nil, err
	}
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, o.collector, "--config", path)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		return p, nil, err
	}
	end = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // its log has its errors
	}
	p = pages{metrics: "http://" + endpoint + "/metrics", own: fmt.Sprintf("http://127.0.0.1:%d/metrics", ownPort)}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if err = p.attached(); err == nil {
			return p, end, nil
		}
		if time.Since(began) > patience {
			end()
			return p, nil, fmt.Errorf("starting %s: %w; its log: %s", o.collector, err, &log)
		}
	}
}

// attached returns an error until requests are counted: the pages exist before that.
func (p *pages) attached() error {
	if _, _, err := get(p.metrics); err != nil {
		return err
	}
	body, _, err := get(p.own)
	if err == nil && !strings.Contains(string(body), `otelcol_ebpf_probes_attached{`) {
		err = errors.New("no probe is attached")
	}
	return err
}

// scrape is what a Prometheus gets.
type scrape struct {
	lines, series, bytes int
	compressed           int     // bytes by gzip, which Prometheus asks for
	asked                int     // until then, by short-lived processes
	counted              float64 // their requests
	lost                 map[string]float64
}

// read scrapes both pages.
func (p *pages) read() (s scrape, err error) {
	s, err = readMetrics(p.metrics)
	if err != nil {
		return s, err
	}
	s.lost, err = readLosses(p.own)
	return s, err
}

// get returns a page as Prometheus gets it, and how many bytes it was transferred in.
func get(page string) (body []byte, transferred int, err error) {
	request, err := http.NewRequest(http.MethodGet, page, nil)
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Accept-Encoding", "gzip")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	compressed, err := io.ReadAll(answer.Body)
	if err != nil || answer.Header.Get("Content-Encoding") != "gzip" {
		return compressed, len(compressed), err
	}
	whole, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, 0, err
	}
	body, err = io.ReadAll(whole)
	return body, len(compressed), err
}

func readMetrics(page string) (s scrape, err error) {
	body, transferred, err := get(page)
	if err != nil {
		return s, err
	}
	s.bytes, s.compressed = len(body), transferred
	for line := range strings.Lines(string(body)) {
		s.lines++
		if strings.HasPrefix(line, "#") {
			continue
		}
		s.series++
		if strings.HasPrefix(line, "http_client_request_duration_seconds_count{") && strings.Contains(line, `job="unknown_service:`+shortName+`"`) {
			value, err := valueOf(line)
			if err != nil {
				return s, err
			}
			s.counted += value
		}
	}
	return s, nil
}

// readLosses returns what the receiver has counted as lost, by the labels that say what and why.
func readLosses(page string) (map[string]float64, error) {
	body, _, err := get(page)
	if err != nil {
		return nil, err
	}
	lost := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		if !strings.Contains(line, `reason="`) {
			continue
		}
		value, err := valueOf(line)
		if err != nil {
			return nil, err
		}
		if value > 0 {
			lost[line[:strings.IndexByte(line, '{')]+" "+label(line, "probe")+" "+label(line, "reason")] += value
		}
	}
	return lost, nil
}

// label returns the value of a line's label.
func label(line, name string) string {
	_, value, _ := strings.Cut(line, name+`="`)
	value, _, _ = strings.Cut(value, `"`)
	return value
}

func valueOf(line string) (float64, error) {
	return strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
}
