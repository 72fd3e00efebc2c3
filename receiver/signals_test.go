// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/memory"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/offcpu"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/oncpu"
)

// TestIdleIsLogged checks that the log says what was asked for and does not run, and what it needs.
func TestIdleIsLogged(t *testing.T) {
	const unparsed = "info: network: requests of HTTP and gRPC are exported as metrics, logs and spans, DNS lookups as metrics and logs: " +
		"other protocols have no effect in this version"
	everything := func(c *Config) {
		c.Observe.list(offcpu.Name, offcpu.DefaultOptions())
		c.Observe.list(memory.Name, memory.DefaultOptions())
	}
	for name, c := range map[string]struct {
		change func(*Config)
		taken  observe.Signals
		want   []string
	}{
		"both": {func(*Config) {}, observe.Signals{Profiles: true, Metrics: true}, []string{unparsed}},
		"other protocols": {func(c *Config) { networkOf(c).Protocols = []string{"mysql", "redis"} }, observe.Signals{Profiles: true, Metrics: true}, []string{
			"warn: What is configured of requests has no effect: observe::network::protocols (mysql, redis)",
		}},
		"http alone": {func(c *Config) { networkOf(c).Protocols = []string{"http"} }, observe.Signals{Profiles: true, Metrics: true}, []string{unparsed}},
		"all that has no effect": {func(c *Config) {
			n := networkOf(c)
			n.Protocols, n.TLS, n.Capture, n.CaptureLimit = []string{"http", "mysql"}, []string{"go"}, network.CaptureMessages, 1<<10
			n.QueueSize, n.Analyzers, n.Requests.Samples, n.Requests.Spans = 1, 64, []network.SampleOptions{{On5xx: true}}, true
		}, observe.Signals{Profiles: true, Metrics: true}, []string{
			unparsed, "warn: What is configured of requests has no effect: observe::network::protocols (mysql), observe::network::queue_size, " +
				"observe::network::analyzers, observe::network::requests::samples (they need a logs pipeline), observe::network::requests::spans (they need a traces pipeline)",
		}},
		"all is taken": {func(c *Config) {
			n := networkOf(c)
			n.Capture, n.Requests.Samples, n.Requests.Spans = network.CaptureMessages, []network.SampleOptions{{On5xx: true}}, true
		}, observe.Signals{Profiles: true, Logs: true, Traces: true}, []string{unparsed}},
		"a limit of messages for heads": {func(c *Config) { networkOf(c).CaptureLimit = 1 << 10 }, observe.Signals{Profiles: true, Metrics: true}, []string{
			unparsed, "warn: What is configured of requests has no effect: observe::network::capture_limit (capture is not messages)",
		}},
		"traces without spans": {func(c *Config) { delete(c.Observe.listed, oncpu.Name) }, observe.Signals{Metrics: true, Traces: true}, []string{
			"warn: The traces pipeline gets nothing: spans are made where observe::network::requests::spans is true alone", unparsed,
		}},
		"spans alone": {func(c *Config) {
			delete(c.Observe.listed, oncpu.Name)
			networkOf(c).Requests.Spans = true
		}, observe.Signals{Traces: true}, []string{unparsed}},
		"no effect, and nothing read": {func(c *Config) {
			networkOf(c).Capture, networkOf(c).Requests.Spans = network.CaptureNone, true
		}, observe.Signals{Profiles: true, Metrics: true}, nil},
		"capture none": {func(c *Config) { networkOf(c).Capture = network.CaptureNone }, observe.Signals{Profiles: true, Metrics: true}, nil},
		"profiles alone": {everything, observe.Signals{Profiles: true}, []string{
			"info: A kind of observation does not run, because no pipeline takes what it makes: network needs a metrics, logs or, with requests::spans and the protocols http or http2, traces pipeline",
		}},
		"metrics alone": {func(*Config) {}, observe.Signals{Metrics: true}, []string{
			"info: A kind of observation does not run, because no pipeline takes what it makes: on_cpu needs a profiles pipeline", unparsed,
		}},
		"logs alone": {func(*Config) {}, observe.Signals{Logs: true}, []string{
			"info: A kind of observation does not run, because no pipeline takes what it makes: on_cpu needs a profiles pipeline", unparsed,
		}},
		"logs of nothing": {func(c *Config) {
			delete(c.Observe.listed, oncpu.Name)
			networkOf(c).Requests = network.RequestOptions{Log: network.LogNone}
		}, observe.Signals{Logs: true}, []string{
			"warn: The receiver observes nothing, because no pipeline takes what the kinds listed under observe make: network needs a metrics, logs or, with requests::spans and the protocols http or http2, traces pipeline",
		}},
		"neither": {everything, observe.Signals{}, []string{
			"warn: The receiver observes nothing, because no pipeline takes what the kinds listed under observe make: on_cpu needs a profiles pipeline, " +
				"off_cpu needs a profiles pipeline, memory needs a profiles pipeline, network needs a metrics, logs or, with requests::spans and the protocols http or http2, traces pipeline",
		}},
		"nothing listed": {func(c *Config) { c.Observe = ObserveConfig{} }, observe.Signals{Profiles: true, Metrics: true}, []string{
			"warn: The receiver observes nothing: no kind is listed under observe",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.InfoLevel)
			config := createDefaultConfig().(*Config)
			c.change(config)
			r := newProfiles(t, config).(*ebpfReceiver)
			r.settings.Logger = zap.New(core)
			r.logIdle(engineConfig(config, c.taken), c.taken)
			var got []string
			for _, entry := range logs.All() {
				got = append(got, entry.Level.String()+": "+entry.Message)
			}
			require.Equal(t, c.want, got)
		})
	}
}
