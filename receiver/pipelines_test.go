// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe/network/requests"
)

// each calls f with every subset of a list.
func each(list []string, f func(subset []string)) {
	for bits := range 1 << len(list) {
		subset := []string{}
		for i, element := range list {
			if bits>>i&1 != 0 {
				subset = append(subset, element)
			}
		}
		f(subset)
	}
}

// asked is what is configured of requests, and which pipelines there are.
type asked struct {
	protocols                 []string
	metrics, logs, traces     bool
	events, top, spans, rules bool
}

// http and dns report which requests are listed.
func (a *asked) http() bool { return contains(a.protocols, "http") || contains(a.protocols, "http2") }
func (a *asked) dns() bool  { return contains(a.protocols, "dns") }

func contains(list []string, name string) bool {
	for _, element := range list {
		if element == name {
			return true
		}
	}
	return false
}

// TestNetworkRunsWhatPipelinesNeed holds for all combinations of protocols, pipelines and forms of requests that the kind network
// looks for the protocols whose requests a pipeline takes and for no other one, that it makes what is taken, and that it does not run
// where nothing is.
func TestNetworkRunsWhatPipelinesNeed(t *testing.T) {
	one := func(a asked) {
		config := createDefaultConfig().(*Config)
		n := networkOf(config)
		n.Protocols, n.Capture = append([]string{"mysql"}, a.protocols...), network.CaptureMessages
		n.Requests = network.RequestOptions{Log: network.LogNone, Spans: a.spans, SamplesPerSecond: 1}
		if a.events {
			n.Requests.Log = network.LogAll
		}
		if a.top {
			n.Requests.Top = 1
		}
		if a.rules {
			n.Requests.Samples = []network.SampleOptions{{On5xx: true}}
		}
		got := networkPlan(engineConfig(config, observe.Signals{Metrics: a.metrics, Logs: a.logs, Traces: a.traces}))

		// By protocol: metrics and events are of each, spans and samples of HTTP.
		ofEach := a.metrics || a.logs && (a.events || a.top)
		ofHTTP := a.traces && a.spans || a.logs && a.rules
		if !a.metrics && !(ofEach && len(a.protocols) > 0) && !(ofHTTP && a.http()) {
			require.Nil(t, got, "%+v", a)
			return
		}
		require.NotNil(t, got, "%+v", a)
		var want []network.Protocol
		for _, name := range a.protocols {
			if ofEach || ofHTTP && name != "dns" {
				want = append(want, network.Protocol(name))
			}
		}
		require.ElementsMatch(t, want, got.Protocols, "%+v", a)
		require.Equal(t, len(want) > 0, got.Requests, "%+v", a)
		require.Equal(t, a.http(), len(got.TLS) > 0, "what TLS carries is looked for of HTTP alone: %+v", a)
		someParsed := a.http() || a.dns()
		require.Equal(t, a.logs && a.events && someParsed, got.Journal.Which == requests.AllRequests, "%+v", a)
		require.Equal(t, a.logs && a.top && someParsed, got.Journal.Top > 0, "%+v", a)
		require.Equal(t, a.traces && a.spans && a.http(), got.Journal.Spans, "%+v", a)
		require.Equal(t, a.logs && a.rules && a.http(), len(got.Journal.Samples.Rules) > 0, "%+v", a)
	}
	combinations := 0
	each([]string{"http", "http2", "dns"}, func(protocols []string) {
		each([]string{"metrics", "logs", "traces"}, func(pipelines []string) {
			each([]string{"events", "top", "spans", "rules"}, func(forms []string) {
				one(asked{
					protocols: protocols,
					metrics:   contains(pipelines, "metrics"), logs: contains(pipelines, "logs"), traces: contains(pipelines, "traces"),
					events: contains(forms, "events"), top: contains(forms, "top"), spans: contains(forms, "spans"), rules: contains(forms, "rules"),
				})
				combinations++
			})
		})
	})
	require.Equal(t, 8*8*16, combinations, fmt.Sprint(combinations))
}
