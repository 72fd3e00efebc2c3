// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestParseEnvironment(t *testing.T) {
	const list = "OTEL_RESOURCE_ATTRIBUTES="
	tests := []struct {
		name, data        string
		half              bool
		service, instance string
	}{
		{name: "none", data: "HOME=/root\x00PATH=/bin\x00"},
		{name: "empty"},
		{name: "name", data: "A=1\x00OTEL_SERVICE_NAME=checkout\x00", service: "checkout"},
		{name: "trimmed", data: "OTEL_SERVICE_NAME= checkout \x00", service: "checkout"},
		{name: "no NUL at the end", data: "OTEL_SERVICE_NAME=checkout", service: "checkout"},
		{name: "cut within the value", data: "OTEL_SERVICE_NAME=check", half: true},
		{name: "cut after it", data: "OTEL_SERVICE_NAME=checkout\x00HO", half: true, service: "checkout"},
		{name: "first counts", data: "OTEL_SERVICE_NAME=a\x00OTEL_SERVICE_NAME=b\x00", service: "a"},
		{name: "name before attributes", data: list + "service.name=b\x00OTEL_SERVICE_NAME=a\x00", service: "a"},
		{name: "empty name is none", data: "OTEL_SERVICE_NAME=\x00" + list + "service.name=b\x00", service: "b"},
		{name: "attributes", data: list + "a=b, service.name = cart ,service.instance.id=i-1\x00", service: "cart", instance: "i-1"},
		{name: "decoded", data: list + "service.name=my%20shop%2C%3D%25\x00", service: "my shop,=%"},
		{name: "plus is a plus", data: list + "service.name=a+b\x00", service: "a+b"},
		{name: "broken escape", data: list + "service.name=50%\x00", service: "50%"},
		{name: "equals sign in the value", data: list + "service.name=a=b\x00", service: "a=b"},
		{name: "pair without a value", data: list + "x,service.name=a,,=\x00", service: "a"},
		{name: "last of equal keys", data: list + "service.name=a,service.name=b\x00", service: "b"},
		{name: "other variables", data: "X_OTEL_SERVICE_NAME=a\x00OTEL_SERVICE_NAMES=b\x00"},
		{name: "not UTF-8", data: "OTEL_SERVICE_NAME=a\xffb\x00", service: "a\uFFFDb"},
		{name: "too long", data: "OTEL_SERVICE_NAME=" + strings.Repeat("é", 1000) + "\x00", service: strings.Repeat("é", 512)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := environment{serviceName: tt.service, serviceInstance: tt.instance}
			require.Equal(t, want, environmentOf(t, []byte(tt.data), !tt.half, maxFile))
			require.Equal(t, want, environmentOf(t, []byte(tt.data), !tt.half, longest([]byte(tt.data))), "in parts")
		})
	}
}

// environmentOf parses an environment in parts of at most so many bytes.
func environmentOf(t *testing.T, data []byte, whole bool, most int) environment {
	t.Helper()
	var v variables
	var part []byte
	for {
		n := min(most-len(part), len(data))
		part, data = append(part, data[:n]...), data[n:]
		last := whole && len(data) == 0
		kept := v.take(part, last)
		require.LessOrEqual(t, kept, len(part))
		if len(data) == 0 || v.complete() {
			return v.environment()
		}
		if kept == most {
			v.leave()
			kept = 0
		}
		part = slices.Clone(part[len(part)-kept:])
	}
}

// longest is the length of the smallest part that can hold each variable.
func longest(data []byte) (size int) {
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		size = max(size, len(entry)+1)
	}
	return size
}

// TestLongEnvironment checks that a service has its name wherever in the environment that is, and however long other variables are.
func TestLongEnvironment(t *testing.T) {
	host := newFakeHost(t)
	var services []string
	for i := range 6000 {
		services = append(services, fmt.Sprintf("SVC_%d_SERVICE_HOST=10.0.0.1", i))
	}
	long := "A=" + strings.Repeat("x", maxFile-len("A=\x00")) // the longest that execve takes
	for pid, env := range map[uint32][]string{
		10: append(services[:len(services):len(services)], "OTEL_SERVICE_NAME=last"),
		11: append([]string{"OTEL_RESOURCE_ATTRIBUTES=service.name=first,service.instance.id=i"}, services...),
		12: {"B=1", long, long, "OTEL_SERVICE_NAME=behind"},
		13: {"B=1", long + long + "OTEL_SERVICE_NAME=within", "OTEL_SERVICE_NAME=overwritten"},
	} {
		host.add(fakeProcess{pid: pid, exe: "/bin/a", env: env})
	}
	table := host.table(Config{})
	scan(t, table)
	for pid, want := range map[uint32]string{10: "last", 11: "first", 12: "behind", 13: "overwritten"} {
		p, _, err := table.LookupPID(pid)
		require.NoError(t, err)
		require.Equal(t, want, p.ServiceName, "%d", pid)
	}
	require.Empty(t, table.Stats().ReadErrors)
}

func FuzzParseEnvironment(f *testing.F) {
	f.Add([]byte("OTEL_SERVICE_NAME=checkout\x00OTEL_RESOURCE_ATTRIBUTES=a=b,service.name=%41\x00"), true)
	f.Add([]byte("OTEL_RESOURCE_ATTRIBUTES=service.instance.id=%\xff,service.name"), false)
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		e := environmentOf(t, data, whole, maxFile)
		require.Equal(t, e, environmentOf(t, data, whole, longest(data)), "in parts")
		for _, s := range []string{e.serviceName, e.serviceInstance} {
			require.LessOrEqual(t, len(s), maxText)
			require.True(t, utf8.ValidString(s))
		}
	})
}

func TestParseArguments(t *testing.T) {
	require.Nil(t, parseArguments(nil))
	require.Nil(t, parseArguments([]byte("\x00\x00")))
	require.Equal(t, []string{"java", "", "-jar"}, parseArguments([]byte("java\x00\x00-jar\x00")))
	require.Equal(t, []string{"nginx: worker process"}, parseArguments([]byte("nginx: worker process\x00\x00\x00")))
	require.Equal(t, []string{"a\uFFFD"}, parseArguments([]byte("a\xff\x00")))
}

func TestParseArgumentsBounds(t *testing.T) {
	long := parseArguments([]byte("java\x00-cp\x00" + strings.Repeat("x", 100_000) + "\x00kafka.Kafka\x00server.properties\x00"))
	require.Equal(t, []string{"java", "-cp"}, long[:2])
	require.Equal(t, []string{"kafka.Kafka", "server.properties"}, long[len(long)-2:])
	require.Equal(t, cut, long[3])
	require.Len(t, long, 7)

	many := parseArguments([]byte(strings.Repeat("a\x00", 1000) + "z\x00"))
	require.Len(t, many, maxArgument)
	require.Equal(t, "z", many[len(many)-1])
}

func FuzzParseArguments(f *testing.F) {
	f.Add([]byte("java\x00-jar\x00x.jar\x00"))
	f.Add([]byte(strings.Repeat("\x00", 300) + "a"))
	f.Add([]byte(strings.Repeat("a\xff", 3000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		arguments := parseArguments(data)
		require.LessOrEqual(t, len(arguments), maxArgument)
		length := 0
		for _, a := range arguments {
			length += len(a)
			require.True(t, utf8.ValidString(a))
		}
		require.LessOrEqual(t, length, 3*maxArguments) // a byte that is not UTF-8 becomes three
	})
}
