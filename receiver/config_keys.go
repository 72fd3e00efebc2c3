// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
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
	addMost(observeType)
	has := slices.Sorted(maps.Keys(keysOf(observeType)))
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

// addMost adds the bounds of lists in a struct to mostElements.
func addMost(t reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		if most, err := strconv.Atoi(field.Tag.Get("most")); err == nil {
			mostElements[field.Tag.Get(confmap.MapstructureTag)] = most
		}
		if below := plain(field.Type); below.Kind() == reflect.Struct {
			addMost(below)
		}
	}
}

// fault is what is wrong with a key or an element of a list.
type fault struct {
	path string
	err  error // begins with path
}

func newFault(path, format string, args ...any) fault {
	return fault{path, fmt.Errorf("%s: "+format, append([]any{path}, args...)...)}
}

// checkKeys returns a fault for each key of the configuration that Config does
// not have, whose value is of another type, or whose list is too long. It names the path of the key and
// what is allowed.
func checkKeys(values map[string]any) []fault {
	return unknownKeys("", "", values, reflect.TypeFor[Config]())
}

// unknownKeys walks a decoded YAML value along the type that it is for. place is
// path without list indices.
func unknownKeys(path, place string, value any, t reflect.Type) []fault {
	t = plain(t)
	switch given := value.(type) {
	case map[string]any:
		return unknownInMap(path, place, given, t)
	case []any:
		return unknownInList(path, place, given, t)
	}
	return wrong(path, value, t)
}

func unknownInMap(path, place string, given map[string]any, t reflect.Type) (faults []fault) {
	if t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[component.ID]() {
		return wrong(path, given, t)
	}
	if t.Kind() == reflect.Map {
		return emptyAttributes(path, given, t)
	}
	if t.Kind() != reflect.Struct {
		return wrong(path, given, t)
	}
	fields := keysOf(t)
	for _, key := range slices.Sorted(maps.Keys(given)) {
		nested, field := given[key], fields[key]
		switch {
		case field == nil:
			faults = append(faults, unknownKey(path+key, place+key, fields))
		case nested == nil && isKind(field):
			// on_cpu: and the like, with nothing below it, have the kind's defaults
		case (nested == nil || nested == "") && isCondition(key, t):
			faults = append(faults, newFault(path+key, "it has no value: say what must match, or leave the key out"))
		default:
			faults = append(faults, unknownKeys(path+key+confmap.KeyDelimiter, place+key+confmap.KeyDelimiter, nested, field)...)
		}
	}
	return faults
}

func unknownInList(path, place string, given []any, t reflect.Type) (faults []fault) {
	if t.Kind() != reflect.Slice {
		return wrong(path, given, t)
	}
	list := strings.TrimSuffix(path, confmap.KeyDelimiter)
	_, key := splitPath(list)
	if most := cmp.Or(mostElements[key], maxElements); len(given) > most {
		return []fault{{list, setting.AtMost(list, len(given), most)}}
	}
	for i, nested := range given {
		element := fmt.Sprintf("%s[%d]%s", list, i, confmap.KeyDelimiter)
		faults = append(faults, unknownKeys(element, place, nested, t.Elem())...)
	}
	return faults
}

// maxElements bounds lists that have no bound of their own in mostElements. A list that is too long is refused before it is
// decoded: decoding takes milliseconds for each of some elements.
const maxElements = 1024

// mostElements is how many elements the lists of a key may have. Fields of kinds have a tag for that: `most:"64"`.
var mostElements = map[string]int{
	"policies": maxPolicies, "when": maxRules, "uri_list": maxURIs, "debuginfod": maxDebuginfod,
}

func wrong(path string, value any, t reflect.Type) []fault {
	check := wrongValue
	if t == runType {
		check = func(path string, value any, _ reflect.Type) error { return wrongRun(path, value) }
	}
	path = strings.TrimSuffix(path, confmap.KeyDelimiter)
	if err := check(path, value, t); err != nil {
		return []fault{{path, err}}
	}
	return nil
}

// isCondition reports whether leaving a key out makes a selector or a rule match more: without a value, such as of an
// environment variable that is not set, it would pass for one that was left out.
func isCondition(key string, t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[SelectorConfig]():
		return key != "set"
	case reflect.TypeFor[RuleConfig]():
		return key == "uri_regex"
	}
	field, _ := fieldOf(t, key)
	return field.Tag.Get("condition") == "true"
}

// isKind reports whether a field is a kind, which runs with its defaults where nothing is below it.
func isKind(t reflect.Type) bool {
	for _, of := range []reflect.Type{observeType, runType} {
		for i := range of.NumField() {
			if of.Field(i).Type == t {
				return true
			}
		}
	}
	return false
}

// emptyAttributes refuses resource attributes of a selector's set without a value: they would be exported as empty text.
func emptyAttributes(path string, given map[string]any, t reflect.Type) (faults []fault) {
	if t != reflect.TypeFor[map[string]string]() {
		return nil
	}
	if set := strings.TrimSuffix(path, confmap.KeyDelimiter); len(given) > maxAttributes {
		return []fault{{set, setting.AtMost(set, len(given), maxAttributes)}}
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if given[key] == nil {
			faults = append(faults, newFault(path+key, "it has no value: give it one, or leave the key out"))
		}
	}
	return faults
}

// maxAttributes bounds the set of a selector.
const maxAttributes = 128

func unknownKey(path, place string, fields map[string]reflect.Type) fault {
	if why, ok := later[place]; ok {
		return newFault(path, "%s", why)
	}
	names := slices.Sorted(maps.Keys(fields))
	return newFault(path, "no such key; allowed here are %s", strings.Join(names, ", "))
}

// plain dereferences pointers, and returns the type by which a list of kinds is checked.
func plain(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[ObserveConfig]():
		return observeType
	case reflect.TypeFor[RunConfig]():
		return runType
	}
	return t
}

// fieldOf is the field of a struct, of an embedded one too, for a key.
func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		field := t.Field(i)
		switch name := field.Tag.Get(confmap.MapstructureTag); name {
		case key:
			return field, true
		case ",squash":
			if found, ok := fieldOf(field.Type, key); ok {
				return found, true
			}
		}
	}
	return reflect.StructField{}, false
}

// keysOf are the keys of a struct, those of embedded ones included.
func keysOf(t reflect.Type) map[string]reflect.Type {
	keys := map[string]reflect.Type{}
	for i := range t.NumField() {
		field := t.Field(i)
		switch name, ok := field.Tag.Lookup(confmap.MapstructureTag); {
		case name == ",squash":
			maps.Copy(keys, keysOf(field.Type))
		case ok && name != "-":
			keys[name] = field.Type
		}
	}
	return keys
}
