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
	const unparsed = "info: network: of requests this version tells HTTP/1 in the clear, as metrics and logs, and DNS, as metrics: " +
		"other protocols, TLS, messages, samples and spans have no effect yet"
	everything := func(c *Config) {
		c.Observe.OffCPU, c.Observe.Memory = configoptional.Some(defaultOffCPU()), configoptional.Some(defaultMemory())
	}
	for name, c := range map[string]struct {
		change func(*Config)
		taken  signals
		want   []string
	}{
		"both":         {func(*Config) {}, signals{profiles: true, metrics: true}, []string{unparsed}},
		"capture none": {func(c *Config) { c.Observe.Network.Get().Capture = captureNone }, signals{profiles: true, metrics: true}, nil},
		"profiles alone": {everything, signals{profiles: true}, []string{
			"info: A kind of observation does not run, because no pipeline takes what it makes: network needs a metrics or logs pipeline",
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
			"warn: The receiver observes nothing, because no pipeline takes what the kinds listed under observe make: network needs a metrics or logs pipeline",
		}},
		"neither": {everything, signals{}, []string{
			"warn: The receiver observes nothing, because no pipeline takes what the kinds listed under observe make: on_cpu needs a profiles pipeline, " +
				"off_cpu needs a profiles pipeline, memory needs a profiles pipeline, network needs a metrics or logs pipeline",
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
