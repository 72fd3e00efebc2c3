// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
)

// place is a key or a list element of the configuration.
type place struct {
	path string
	// with returns the configuration in which it has a value.
	with func(value any) any
	kind bool
}

// placesOf returns every key and list element below a type.
func placesOf(path string, t reflect.Type, with func(any) any) (list []place) {
	t = plain(t)
	leaf := t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[component.ID]()
	switch {
	case t.Kind() == reflect.Struct && !leaf:
		fields := keysOf(t)
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			at := key
			if path != "" {
				at = path + confmap.KeyDelimiter + key
			}
			inside := func(value any) any { return with(map[string]any{key: value}) }
			list = append(list, place{at, inside, isKind(fields[key])})
			list = append(list, placesOf(at, fields[key], inside)...)
		}
	case t.Kind() == reflect.Map:
		inside := func(value any) any { return with(map[string]any{"x": value}) }
		list = append(list, place{path: path + confmap.KeyDelimiter + "x", with: inside})
	case t.Kind() == reflect.Slice:
		inside := func(value any) any { return with([]any{value}) }
		list = append(list, place{path: path + "[0]", with: inside})
		list = append(list, placesOf(path+"[0]", t.Elem(), inside)...)
	}
	return list
}

// TestNoValue checks that no key and no list element without a value, such as ${env:UNSET}, passes for one that was left
// out or for an empty one, at any depth. Only a kind may have nothing below it.
func TestNoValue(t *testing.T) {
	places := placesOf("", reflect.TypeFor[Config](), func(value any) any { return value })
	require.Greater(t, len(places), 300)
	for _, p := range places {
		conf := confmap.NewFromStringMap(p.with(nil).(map[string]any))
		err := createDefaultConfig().(*Config).Unmarshal(conf)
		if p.kind {
			require.NoError(t, err, p.path)
			continue
		}
		require.ErrorContains(t, err, p.path+": it has no value: ")
	}
}

// TestEmptyPattern checks that an empty pattern does not pass for a rule that matches every request.
func TestEmptyPattern(t *testing.T) {
	for path, values := range map[string]map[string]any{
		"policies[0]::when[0]::uri_regex":                   {"policies": []any{map[string]any{"when": []any{map[string]any{"uri_regex": ""}}}}},
		"observe::network::requests::samples[0]::uri_regex": {"observe": map[string]any{"network": map[string]any{"requests": map[string]any{"samples": []any{map[string]any{"uri_regex": "", "on_5xx": true}}}}}},
	} {
		err := createDefaultConfig().(*Config).Unmarshal(confmap.NewFromStringMap(values))
		require.ErrorContains(t, err, path+": it has no value: say what must match, or leave the key out")
	}
}
