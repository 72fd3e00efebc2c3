// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/l7/protocol"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/observe"
)

// Notes implements [observe.Noter].
func (c *Options) Notes(path string, taken observe.Signals) (infos, warnings []string) {
	plan, runs := c.Plan(taken).(*Plan)
	if !runs {
		return nil, nil
	}
	if plan.Requests {
		infos = append(infos, "network: requests of HTTP and gRPC are exported as metrics, logs and spans, DNS lookups as metrics and logs: "+
			"other protocols have no effect in this version")
	}
	if ignored := c.withoutEffect(path, taken); len(ignored) > 0 {
		warnings = append(warnings, "What is configured of requests has no effect: "+strings.Join(ignored, ", "))
	}
	return infos, warnings
}

// withoutEffect names by path the options of requests that are configured but have no effect,
// because this version does not implement them or no pipeline takes the result. Options with their
// default values do not count as configured.
func (c *Options) withoutEffect(path string, taken observe.Signals) []string {
	if c.Capture == CaptureNone {
		return nil
	}
	defaults := DefaultOptions()
	var list []string
	for _, key := range []struct {
		name    string
		ignored bool
	}{
		{ignoredProtocols(c.Protocols), !slices.Equal(c.Protocols, defaults.Protocols) && ignoredProtocols(c.Protocols) != ""},
		{"capture_limit (capture is not messages)", c.CaptureLimit != defaults.CaptureLimit && c.Capture != CaptureMessages},
		{"queue_size", c.QueueSize != defaults.QueueSize},
		{"analyzers", c.Analyzers != defaults.Analyzers},
		{"requests::samples (they need a logs pipeline)", len(c.Requests.Samples) > 0 && !taken.Logs},
		{needs("requests::samples", hasSamples), len(c.Requests.Samples) > 0 && taken.Logs && !c.parsesAny(hasSamples)},
		{"requests::spans (they need a traces pipeline)", c.Requests.Spans && !taken.Traces},
		{needs("requests::spans", hasSpans), c.Requests.Spans && taken.Traces && !c.parsesAny(hasSpans)},
	} {
		if key.ignored {
			list = append(list, path+"::"+key.name)
		}
	}
	return list
}

// needs names an option with the protocols that have what it configures.
func needs(option string, has func(name string) bool) string {
	return fmt.Sprintf("%s (they need the protocols %s)", option, protocolsWith(has))
}

// ignoredProtocols names those that are not parsed; empty where there are none.
func ignoredProtocols(listed []string) string {
	ignored := slices.DeleteFunc(slices.Clone(listed), func(name string) bool { return protocol.Find(name) != nil })
	if len(ignored) == 0 {
		return ""
	}
	return fmt.Sprintf("protocols (%s)", strings.Join(ignored, ", "))
}
