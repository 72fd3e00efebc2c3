// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"slices"
	"strings"
)

// withoutEffect names what was asked of requests and is not done in this version, or that
// no pipeline takes, by its path: what is as by default nobody has asked for.
func (c *NetworkConfig) withoutEffect(path string, taken signals) []string {
	if c.Capture == captureNone {
		return nil
	}
	asked := defaultNetwork()
	var list []string
	for _, key := range []struct {
		name    string
		ignored bool
	}{
		{ignoredProtocols(c.Protocols), !slices.Equal(c.Protocols, asked.Protocols) && ignoredProtocols(c.Protocols) != ""},
		{"capture_limit (capture is not messages)", c.CaptureLimit != asked.CaptureLimit && c.Capture != captureMessages},
		{"queue_size", c.QueueSize != asked.QueueSize},
		{"analyzers", c.Analyzers != asked.Analyzers},
		{"requests::samples (they need a logs pipeline)", len(c.Requests.Samples) > 0 && !taken.logs},
		{"requests::spans (they need a traces pipeline)", c.Requests.Spans && !taken.traces},
	} {
		if key.ignored {
			list = append(list, path+"::"+key.name)
		}
	}
	return list
}

// ignoredProtocols names those that are not parsed; empty where there are none.
func ignoredProtocols(listed []string) string {
	ignored := slices.DeleteFunc(slices.Clone(listed), func(name string) bool { return slices.Contains(parsed, name) })
	if len(ignored) == 0 {
		return ""
	}
	return fmt.Sprintf("protocols (%s)", strings.Join(ignored, ", "))
}
