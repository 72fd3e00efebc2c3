// SPDX-License-Identifier: Apache-2.0

package process

import (
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
			require.Equal(t, environment{serviceName: tt.service, serviceInstance: tt.instance},
				parseEnvironment([]byte(tt.data), !tt.half))
		})
	}
}

func FuzzParseEnvironment(f *testing.F) {
	f.Add([]byte("OTEL_SERVICE_NAME=checkout\x00OTEL_RESOURCE_ATTRIBUTES=a=b,service.name=%41\x00"), true)
	f.Add([]byte("OTEL_RESOURCE_ATTRIBUTES=service.instance.id=%\xff,service.name"), false)
	f.Fuzz(func(t *testing.T, data []byte, whole bool) {
		e := parseEnvironment(data, whole)
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
