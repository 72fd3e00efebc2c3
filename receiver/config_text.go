// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.opentelemetry.io/collector/confmap"
)

// textInstead explains why the decoder did not take a configuration whose keys
// and types are as they should be otherwise: text without quotes that YAML reads
// as something else, such as a container id of digits alone. It returns the
// decoder's error when that is not the reason. Beside what is wrong it may name a
// text from the environment that looks like a number; quotes do no harm there.
func textInstead(values map[string]any, decoder error) error {
	if errs := notText("", values, reflect.TypeFor[Config]()); len(errs) > 0 {
		return errors.Join(errs...)
	}
	return decoder
}

// notText walks a decoded YAML value along the type that it is for.
func notText(path string, value any, t reflect.Type) []error {
	t = plain(t)
	if t == reflect.TypeFor[time.Time]() {
		return nil
	}
	if t.Kind() == reflect.String {
		if wrong := shownKind(value); wrong != "" {
			return []error{fmt.Errorf("%s: %s", path, wrong)}
		}
		return nil
	}
	var errs []error
	switch given := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(given)) {
			below := key
			if path != "" {
				below = path + confmap.KeyDelimiter + key
			}
			errs = append(errs, notText(below, given[key], elementOf(t, key))...)
		}
	case []any:
		for i, nested := range given {
			errs = append(errs, notText(fmt.Sprintf("%s[%d]", path, i), nested, t.Elem())...)
		}
	}
	return errs
}

// elementOf is the type of what a key of a map or of a struct is for.
func elementOf(t reflect.Type, key string) reflect.Type {
	if t.Kind() == reflect.Map {
		return t.Elem()
	}
	return keysOf(t)[key]
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
