// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// event is a policy that fired.
type event struct{ task, causes string }

// value is one of OTLP/JSON.
type value struct {
	String string   `json:"stringValue"`
	Double *float64 `json:"doubleValue"`
	List   *struct {
		Values []value `json:"values"`
	} `json:"arrayValue"`
	Map *struct {
		Values []attribute `json:"values"`
	} `json:"kvlistValue"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

// text is what a person reads.
func (v value) text() string {
	switch {
	case v.Double != nil:
		return fmt.Sprintf("%.3g", *v.Double)
	case v.List != nil:
		var parts []string
		for _, one := range v.List.Values {
			parts = append(parts, one.text())
		}
		return strings.Join(parts, "; ")
	case v.Map != nil:
		var parts []string
		for _, a := range v.Map.Values {
			parts = append(parts, a.Key+" "+a.Value.text())
		}
		return strings.Join(parts, ", ")
	}
	return v.String
}

// events are those of a policy that the Collector has written so far.
func events(dir, name, policy string) (list []event, err error) {
	err = lines(filepath.Join(dir, "logs.json"), func(line []byte) error {
		var message struct {
			ResourceLogs []struct {
				ScopeLogs []struct {
					LogRecords []struct {
						EventName  string      `json:"eventName"`
						Attributes []attribute `json:"attributes"`
					} `json:"logRecords"`
				} `json:"scopeLogs"`
			} `json:"resourceLogs"`
		}
		if err := json.Unmarshal(line, &message); err != nil {
			return fmt.Errorf("reading logs: %w", err)
		}
		for _, resource := range message.ResourceLogs {
			for _, scope := range resource.ScopeLogs {
				for _, record := range scope.LogRecords {
					of := map[string]value{}
					for _, a := range record.Attributes {
						of[a.Key] = a.Value
					}
					if record.EventName == name && of["ebpf.policy"].String == policy {
						list = append(list, event{task: of["ebpf.task.id"].String, causes: of["ebpf.causes"].text()})
					}
				}
			}
		}
		return nil
	})
	return list, err
}

// lines hands over the whole lines of a file.
func lines(path string, each func([]byte) error) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line, rest, whole := bytes.Cut(text, []byte("\n")); whole; line, rest, whole = bytes.Cut(rest, []byte("\n")) {
		if err := each(line); err != nil {
			return err
		}
	}
	return nil
}

// shares are in how many samples a function is, alone or as a caller.
type shares struct {
	samples int64
	by      map[string]int64
}

// profileOf adds up what the Collector has written of a task so far.
func profileOf(dir, task string) (shares, error) {
	found := shares{by: map[string]int64{}}
	err := lines(filepath.Join(dir, "profiles.json"), func(line []byte) error {
		return pdata.FoldJSON(line, func(s pdata.FoldedSample) error {
			if id, ok := s.Profile.Attributes.Get("ebpf.task.id"); !ok || id.Str() != task {
				return nil
			}
			found.samples += s.Value
			seen := map[string]bool{}
			for _, frame := range s.Stack {
				if name := frame.String(); !seen[name] {
					seen[name] = true
					found.by[name] += s.Value
				}
			}
			return nil
		})
	})
	return found, err
}

// of is the share of a function, by the end of its name.
func (s shares) of(function string) float64 {
	var most int64
	for name, n := range s.by {
		if strings.HasSuffix(name, "."+function) {
			most = max(most, n)
		}
	}
	return float64(most) / float64(max(s.samples, 1))
}

// hottest are the functions with the most samples.
func (s shares) hottest(n int) string {
	names := slices.SortedFunc(func(yield func(string) bool) {
		for name := range s.by {
			if !yield(name) {
				return
			}
		}
	}, func(x, y string) int { return cmp.Compare(s.by[y], s.by[x]) })
	return fmt.Sprintf("%d samples, most in %s", s.samples, strings.Join(names[:min(n, len(names))], ", "))
}
