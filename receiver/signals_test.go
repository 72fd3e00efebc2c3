// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestIdleIsTold holds that the log says what was asked for and does not run, and what it needs.
func TestIdleIsTold(t *testing.T) {
	const unparsed = "info: network: of requests this version tells those of HTTP and gRPC, as metrics, logs and spans, and of DNS, as metrics: " +
		"other protocols have no effect yet"
	everything := func(c *Config) {
		c.Observe.OffCPU, c.Observe.Memory = configoptional.Some(defaultOffCPU()), configoptional.Some(defaultMemory())
	}
	for name, c := range map[string]struct {
		change func(*Config)
		taken  signals
		want   []string
	}{
		"both": {func(*Config) {}, signals{profiles: true, metrics: true}, []string{unparsed}},
		"other protocols": {func(c *Config) { c.Observe.Network.Get().Protocols = []string{"mysql", "redis"} }, signals{profiles: true, metrics: true}, []string{
			"warn: What is configured of requests has no effect: observe::network::protocols (mysql, redis)",
		}},
		"http alone": {func(c *Config) { c.Observe.Network.Get().Protocols = []string{"http"} }, signals{profiles: true, metrics: true}, []string{unparsed}},
		"all that has no effect": {func(c *Config) {
			n := c.Observe.Network.Get()
			n.Protocols, n.TLS, n.Capture, n.CaptureLimit = []string{"http", "mysql"}, []string{"go"}, captureMessages, 1<<10
			n.QueueSize, n.Analyzers, n.Requests.Samples, n.Requests.Spans = 1, maxAnalyzers, []SampleConfig{{On5xx: true}}, true
		}, signals{profiles: true, metrics: true}, []string{
			unparsed, "warn: What is configured of requests has no effect: observe::network::protocols (mysql), observe::network::queue_size, " +
				"observe::network::analyzers, observe::network::requests::samples (they need a logs pipeline), observe::network::requests::spans (they need a traces pipeline)",
		}},
		"all is taken": {func(c *Config) {
			n := c.Observe.Network.Get()
			n.Capture, n.Requests.Samples, n.Requests.Spans = captureMessages, []SampleConfig{{On5xx: true}}, true
		}, signals{profiles: true, logs: true, traces: true}, []string{unparsed}},
		"a limit of messages for heads": {func(c *Config) { c.Observe.Network.Get().CaptureLimit = 1 << 10 }, signals{profiles: true, metrics: true}, []string{
			unparsed, "warn: What is configured of requests has no effect: observe::network::capture_limit (capture is not messages)",
		}},
		"traces without spans": {func(c *Config) { c.Observe.OnCPU = nothingListed().OnCPU }, signals{metrics: true, traces: true}, []string{
			"warn: The traces pipeline gets nothing: spans are made where observe::network::requests::spans is true alone", unparsed,
		}},
		"spans alone": {func(c *Config) {
			c.Observe.OnCPU, c.Observe.Network.Get().Requests.Spans = nothingListed().OnCPU, true
		}, signals{traces: true}, []string{unparsed}},
		"no effect, and nothing read": {func(c *Config) {
			c.Observe.Network.Get().Capture, c.Observe.Network.Get().Requests.Spans = captureNone, true
		}, signals{profiles: true, metrics: true}, nil},
		"capture none": {func(c *Config) { c.Observe.Network.Get().Capture = captureNone }, signals{profiles: true, metrics: true}, nil},
		"profiles alone": {everything, signals{profiles: true}, []string{
			"info: A kind of observation does not run, because no pipeline takes what it makes: network needs a metrics, logs or, with requests::spans, traces pipeline",
		}},
		"metrics alone": {func(*Config) {}, signals{metrics: true}, []string{
			"info: A kind of observation does not run, because no pipeline takes what it makes: on_cpu needs a profiles pipeline", unparsed,
		}},
		"logs alone": {func(*Config) {}, signals{logs: true}, []string{
			"info: A kind of observation does not run, because no pipeline takes what it makes: on_cpu needs a profiles pipeline", unparsed,
		}},
		"logs of nothing": {func(c *Config) {
			c.Observe.OnCPU, c.Observe.Network.Get().Requests = nothingListed().OnCPU, RequestsConfig{Log: logNone}
		}, signals{logs: true}, []string{
			"warn: The receiver observes nothing, because no pipeline takes what the kinds listed under observe make: network needs a metrics, logs or, with requests::spans, traces pipeline",
		}},
		"neither": {everything, signals{}, []string{
			"warn: The receiver observes nothing, because no pipeline takes what the kinds listed under observe make: on_cpu needs a profiles pipeline, " +
				"off_cpu needs a profiles pipeline, memory needs a profiles pipeline, network needs a metrics, logs or, with requests::spans, traces pipeline",
		}},
		"nothing listed": {func(c *Config) { c.Observe = nothingListed() }, signals{profiles: true, metrics: true}, []string{
			"warn: The receiver observes nothing: no kind is listed under observe",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			core, logs := observer.New(zap.InfoLevel)
			config := createDefaultConfig().(*Config)
			c.change(config)
			r := newProfiles(t, config).(*ebpfReceiver)
			r.settings.Logger = zap.New(core)
			r.tellIdle(engineConfig(config, c.taken), c.taken)
			var got []string
			for _, entry := range logs.All() {
				got = append(got, entry.Level.String()+": "+entry.Message)
			}
			require.Equal(t, c.want, got)
		})
	}
}
