// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
)

// later lists keys that belong to the receiver's contract and that this version
// does not have; the value says what to do.
var later = map[string]string{
	"control":               "this version has no control API",
	"kubernetes":            laterPod,
	"targets::include::pod": laterPod,
	"targets::exclude::pod": laterPod,
}

const laterPod = "this version does not ask the API server; select by pod_uid or container_id"

// placeOfKinds begins the keys of kinds that run from start to shutdown.
const placeOfKinds = "observe::"

// laterKinds are kinds of observation that this version does not have.
var laterKinds = []string{
	"trace", "threads", "tcp", "sockets", "io",
	"process", "sli", "jvm", "redis", "postgres", "proxy", "hardware",
}

func init() {
	has := slices.Sorted(maps.Keys(keysOf(reflect.TypeFor[ObserveConfig]())))
	for _, place := range []string{"tasks::targets::pod", "policies::targets::pod"} {
		later[place] = laterPod
	}
	for _, kind := range has {
		later[placeOfKinds+kind+"::targets::pod"] = laterPod
	}
	for _, kind := range laterKinds {
		for _, place := range []string{placeOfKinds, "tasks::run::", "policies::run::"} {
			later[place+kind] = "this version does not have this kind of observation; it has " + strings.Join(has, ", ")
		}
	}
}

// checkKeys returns an error for each key of the configuration that Config does
// not have or whose value is of another type. It names the path of the key and
// what is allowed.
func checkKeys(values map[string]any) error {
	return errors.Join(unknownKeys("", "", values, reflect.TypeFor[Config]())...)
}

// unknownKeys walks a decoded YAML value along the type that it is for. place is
// path without list indices.
func unknownKeys(path, place string, value any, t reflect.Type) []error {
	t = plain(t)
	var errs []error
	switch given := value.(type) {
	case map[string]any:
		if t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[component.ID]() {
			return wrong(path, value, t)
		}
		if t.Kind() == reflect.Map {
			return emptyAttributes(path, given, t)
		}
		if t.Kind() != reflect.Struct {
			return wrong(path, value, t)
		}
		fields := keysOf(t)
		for _, key := range slices.Sorted(maps.Keys(given)) {
			nested := given[key]
			field, ok := fields[key]
			if !ok {
				errs = append(errs, unknownKey(path+key, place+key, fields))
				continue
			}
			if err := emptyCondition(path+key, key, nested, t); err != nil {
				errs = append(errs, err)
				continue
			}
			errs = append(errs, unknownKeys(path+key+confmap.KeyDelimiter, place+key+confmap.KeyDelimiter, nested, field)...)
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return wrong(path, value, t)
		}
		list := strings.TrimSuffix(path, confmap.KeyDelimiter)
		for i, nested := range given {
			element := fmt.Sprintf("%s[%d]%s", list, i, confmap.KeyDelimiter)
			errs = append(errs, unknownKeys(element, place, nested, t.Elem())...)
		}
	default:
		return wrong(path, value, t)
	}
	return errs
}

func wrong(path string, value any, t reflect.Type) []error {
	check := wrongValue
	if t == reflect.TypeFor[RunConfig]() {
		check = func(path string, value any, _ reflect.Type) error { return wrongRun(path, value) }
	}
	if err := check(strings.TrimSuffix(path, confmap.KeyDelimiter), value, t); err != nil {
		return []error{err}
	}
	return nil
}

// emptyCondition refuses a selector's field without a value, such as of an
// environment variable that is not set: it would pass for a condition that was
// left out, and the selector would match more than was meant.
func emptyCondition(path, key string, value any, t reflect.Type) error {
	if t != reflect.TypeFor[SelectorConfig]() || key == "set" || value != nil && value != "" {
		return nil
	}
	return fmt.Errorf("%s: it has no value: say what must match, or leave the key out", path)
}

// emptyAttributes refuses resource attributes of a selector's set without a value: they would be told as empty text.
func emptyAttributes(path string, given map[string]any, t reflect.Type) (errs []error) {
	if t != reflect.TypeFor[map[string]string]() {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if given[key] == nil {
			errs = append(errs, fmt.Errorf("%s%s: it has no value: give it one, or leave the key out", path, key))
		}
	}
	return errs
}

func unknownKey(path, place string, fields map[string]reflect.Type) error {
	if why, ok := later[place]; ok {
		return fmt.Errorf("%s: %s", path, why)
	}
	names := slices.Sorted(maps.Keys(fields))
	return fmt.Errorf("%s: no such key; allowed here are %s", path, strings.Join(names, ", "))
}

// plain looks through pointers and configoptional.Optional.
func plain(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if get, ok := reflect.PointerTo(t).MethodByName("Get"); ok && t.Kind() == reflect.Struct {
		return plain(get.Type.Out(0))
	}
	return t
}

// keysOf are the keys of a struct, those of embedded ones included.
func keysOf(t reflect.Type) map[string]reflect.Type {
	keys := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		switch name, ok := field.Tag.Lookup(confmap.MapstructureTag); {
		case name == ",squash":
			maps.Copy(keys, keysOf(field.Type))
		case ok:
			keys[name] = field.Type
		}
	}
	return keys
}
