// SPDX-License-Identifier: Apache-2.0

package model

import "encoding/json"

// Cause is one fulfilled rule of a policy: why a run was started automatically.
type Cause struct {
	// Monitor is the name of the monitor, such as process_cpu.
	Monitor string `json:"monitor"`
	// Threshold is what was configured, Value the last one that reached it, both in the
	// monitor's unit.
	Threshold float64 `json:"threshold"`
	Value     float64 `json:"current"`
	// Path is what narrowed a monitor of requests: the path of uri_list or the pattern of
	// uri_regex; empty where nothing did.
	Path string `json:"uri,omitempty"`
}

// Causes returns an attribute that is a list of maps with the keys monitor, threshold, current and, where there is one, uri.
func Causes(key string, causes []Cause) Attribute {
	if causes == nil {
		causes = []Cause{}
	}
	text, err := json.Marshal(causes)
	if err != nil { // a value that is no number
		text = []byte("[]")
	}
	return Attribute{Key: key, Value: AttributeValue{Text: string(text), Type: CauseAttribute}}
}

// Causes is the value of a list of causes.
func (v AttributeValue) Causes() []Cause {
	var causes []Cause
	if json.Unmarshal([]byte(v.Text), &causes) != nil {
		return nil
	}
	return causes
}
