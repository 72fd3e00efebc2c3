// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"net/url"
	"strings"
)

// Names of resource attributes that are derived rather than configured.
const (
	attrServiceName     = "service.name"
	attrServiceInstance = "service.instance.id"
)

// environment is all that is kept of a process's environment.
type environment struct {
	// serviceName and serviceInstance are empty where the environment does not set them.
	serviceName, serviceInstance string
}

// parseEnvironment takes what it keeps from variables of an environment.
func parseEnvironment(all []byte) environment {
	var v variables
	v.take(all, true)
	return v.environment()
}

// maxEnvironment is how much of an environment is read: what execve(2) takes of arguments and environment together, where the stack may grow
// to 8 MiB.
const maxEnvironment = 2 << 20

// variables extracts the two variables of OpenTelemetry's SDKs from parts of /proc/PID/environ: entries NAME=VALUE that end with a NUL. The
// first of a name counts, as with getenv(3). An empty variable is the same as none.
type variables struct {
	name       string
	attributes environment
	listed     bool // there were attributes
	inside     bool // of a variable that is longer than a part
}

// take parses a part and returns how many of its bytes the next part must begin with: those of a variable that continues. What follows the
// last NUL of a truncated environment is an incomplete variable and is skipped.
func (v *variables) take(part []byte, last bool) (kept int) {
	if v.inside {
		_, after, ended := bytes.Cut(part, []byte{0})
		part, v.inside = after, !ended
	}
	for len(part) > 0 && !v.complete() {
		entry, after, ended := bytes.Cut(part, []byte{0})
		if !ended && !last {
			return len(part)
		}
		if value, ok := bytes.CutPrefix(entry, []byte("OTEL_SERVICE_NAME=")); ok && v.name == "" {
			v.name = clean(string(value))
		} else if value, ok := bytes.CutPrefix(entry, []byte("OTEL_RESOURCE_ATTRIBUTES=")); ok && !v.listed {
			v.listed = true
			v.attributes.setAttributes(string(value))
		}
		part = after
	}
	return 0
}

// leave skips the variable that continues in the next part.
func (v *variables) leave() { v.inside = true }

func (v *variables) complete() bool { return v.name != "" && v.listed }

func (v *variables) environment() environment {
	e := v.attributes
	if v.name != "" {
		e.serviceName = v.name
	}
	return e
}

// setAttributes takes what it needs from key=value,key=value… with percent-encoded values (the syntax of W3C baggage, as the OpenTelemetry
// specification has it). A pair without "=" is skipped, and a value that cannot be decoded is used as it is, as in the Go SDK. The last of
// equal keys counts.
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

// clean makes a name from a value that the process chose, in memory of its own.
func clean(s string) string {
	return strings.Clone(bound(cleanText(strings.TrimSpace(s)), maxText))
}
