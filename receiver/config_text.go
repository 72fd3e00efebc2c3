// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.opentelemetry.io/collector/confmap"
)

// notText returns a fault for each text without quotes that YAML reads as something else, such as a container id of digits alone. It walks
// a decoded YAML value along the type that it is for. It also returns texts from the environment that look like a number, which the decoder
// takes: only the decoder can distinguish them.
func notText(path string, value any, t reflect.Type) []fault {
	if t == nil {
		return nil // there is no such key
	}
	t = plain(t)
	if t == reflect.TypeFor[time.Time]() {
		return nil
	}
	if t.Kind() == reflect.String {
		if wrong := shownKind(value); wrong != "" {
			return []fault{newFault(path, "%s", wrong)}
		}
		return nil
	}
	var faults []fault
	switch given := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(given)) {
			below := key
			if path != "" {
				below = path + confmap.KeyDelimiter + key
			}
			faults = append(faults, notText(below, given[key], elementOf(t, key))...)
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i, nested := range given {
			faults = append(faults, notText(fmt.Sprintf("%s[%d]", path, i), nested, t.Elem())...)
		}
	}
	return faults
}

// elementOf is the type of what a key of a map or of a struct is for.
func elementOf(t reflect.Type, key string) reflect.Type {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem()
	case reflect.Struct:
		return keysOf(t)[key]
	}
	return nil
}

// shownKind says what is given instead of text, or nothing. The value itself is
// not shown: YAML has changed it, a leading zero for one.
func shownKind(value any) string {
	const quote = " is not allowed: it must be text; put it in quotes"
	switch given := value.(type) {
	case nil, string:
		return ""
	case bool:
		return fmt.Sprint(given) + quote
	case map[string]any, []any:
		return shown(value) + " is not allowed: it must be text"
	}
	if v := reflect.ValueOf(value); v.CanInt() || v.CanUint() || v.CanFloat() {
		return "a number" + quote
	}
	return "a date" + quote
}
