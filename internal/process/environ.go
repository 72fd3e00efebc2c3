// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"net/url"
	"strings"
)

// Names of resource attributes that are found out rather than set.
const (
	attrServiceName     = "service.name"
	attrServiceInstance = "service.instance.id"
)

// environment is all that is kept of a process's environment.
type environment struct {
	// serviceName and serviceInstance are empty where nothing says them.
	serviceName, serviceInstance string
}

// parseEnvironment reads the two variables of OpenTelemetry's SDKs out of
// /proc/PID/environ: entries NAME=VALUE that end with a NUL, the first of a
// name counting as with getenv(3). An empty variable is the same as none.
// What follows the last NUL of a cut environment is half a variable and left.
func parseEnvironment(data []byte, whole bool) environment {
	var e environment
	var name string
	var attributes []byte
	for len(data) > 0 && (name == "" || attributes == nil) {
		entry, rest, ended := bytes.Cut(data, []byte{0})
		if !ended && !whole {
			break
		}
		data = rest
		if value, ok := bytes.CutPrefix(entry, []byte("OTEL_SERVICE_NAME=")); ok && name == "" {
			name = string(value)
		} else if value, ok := bytes.CutPrefix(entry, []byte("OTEL_RESOURCE_ATTRIBUTES=")); ok && attributes == nil {
			attributes = value
		}
	}
	e.setAttributes(string(attributes))
	if name = clean(name); name != "" {
		e.serviceName = name
	}
	return e
}

// setAttributes takes what it needs from key=value,key=value… with
// percent-encoded values (the syntax of W3C baggage, as the OpenTelemetry
// specification has it). A pair without "=" is passed over and a value that
// cannot be decoded stands for itself, as in the Go SDK. The last of equal
// keys counts.
func (e *environment) setAttributes(list string) {
	for pair := range strings.SplitSeq(list, ",") {
		key, value, _ := strings.Cut(pair, "=")
		switch strings.TrimSpace(key) {
		case attrServiceName:
			e.serviceName = decoded(value)
		case attrServiceInstance:
			e.serviceInstance = decoded(value)
		}
	}
}

func decoded(value string) string {
	value = strings.TrimSpace(value)
	if plain, err := url.PathUnescape(value); err == nil {
		value = plain
	}
	return clean(value)
}

// clean makes a name of a value that the process chose, in memory of its own.
func clean(s string) string {
	return strings.Clone(bound(cleanText(strings.TrimSpace(s)), maxText))
}
