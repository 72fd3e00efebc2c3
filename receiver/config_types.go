// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// wrongValue describes what is wrong with the type of a decoded YAML value, or returns
// nothing. The decoder would truncate a fraction, wrap a number that is too large
// around to 0, and name only a part of the key's path. A value for a text is left to
// the decoder: a text from the environment may look like a number, which only the
// decoder can distinguish; see notText.
func wrongValue(path string, value any, t reflect.Type) error {
	wanted := wantedInstead(value, t)
	switch {
	case wanted == "":
		return nil
	case value == nil:
		return noValue(path, wanted)
	}
	return fmt.Errorf("%s: %s is not allowed: it must be %s", path, shown(value), wanted)
}

// noValue refuses a key or an element of a list without a value, such as of an environment variable that is not
// set. The decoder would take it for false, 0, or an empty list, which may mean every process.
func noValue(path, wanted string) error {
	if strings.HasSuffix(path, "]") {
		return fmt.Errorf("%s: it has no value: it must be %s, or leave the element out", path, wanted)
	}
	return fmt.Errorf("%s: it has no value: it must be %s, or leave the key out for the default", path, wanted)
}

// wantedInstead says what must be given instead of a value; nothing where its type is right.
func wantedInstead(value any, t reflect.Type) string {
	switch {
	case t.Kind() == reflect.String || t.Kind() == reflect.Interface:
		if value == nil {
			return "text"
		}
		return ""
	case t == reflect.TypeFor[time.Time]():
		return wrongTime(value)
	case t == reflect.TypeFor[component.ID]():
		return wrongID(value)
	case t == reflect.TypeFor[time.Duration]():
		return wrongDuration(value)
	case t == reflect.TypeFor[setting.ByteSize]():
		return wrongByteSize(value)
	case t.Kind() == reflect.Bool:
		return wrongBool(value)
	case t.Kind() == reflect.Float64:
		return wrongFloat(value)
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		return "a map"
	case t.Kind() == reflect.Slice:
		return "a list"
	}
	return wrongInteger(value, t)
}

func wrongDuration(value any) string {
	if text, ok := value.(string); ok {
		if _, err := time.ParseDuration(text); err == nil {
			return ""
		}
	}
	return "a duration with its unit, such as 9ms"
}

func wrongTime(value any) string {
	switch given := value.(type) {
	case time.Time: // as YAML reads it without quotes
		return ""
	case string:
		if _, err := time.Parse(time.RFC3339, given); err == nil {
			return ""
		}
	}
	return "a time with its zone, such as 2026-11-21T09:00:00Z"
}

func wrongID(value any) string {
	if text, ok := value.(string); ok && new(component.ID).UnmarshalText([]byte(text)) == nil {
		return ""
	}
	return "the name of an extension, such as file_storage"
}

func wrongByteSize(value any) string {
	if text, ok := value.(string); ok {
		if new(setting.ByteSize).UnmarshalText([]byte(text)) == nil {
			return ""
		}
	}
	if reflect.ValueOf(value).CanInt() {
		return ""
	}
	return "a size in bytes, such as 512KiB"
}

func wrongBool(value any) string {
	if _, ok := value.(bool); ok {
		return ""
	}
	return "true or false"
}

func wrongFloat(value any) string {
	v := reflect.ValueOf(value)
	if v.CanFloat() && !math.IsNaN(v.Float()) || v.CanInt() {
		return ""
	}
	return "a number"
}

// wrongInteger checks against the range of the field's type. Whole numbers without
// a sign are process ids and ports, of which 0 is none: it must not pass for a
// condition that was left out.
func wrongInteger(value any, t reflect.Type) string {
	v, field := reflect.ValueOf(value), reflect.Zero(t)
	switch {
	case v.CanInt() && field.CanInt() && !field.OverflowInt(v.Int()),
		v.CanInt() && field.CanUint() && v.Int() > 0 && !field.OverflowUint(uint64(v.Int())):
		return ""
	case field.CanUint():
		return fmt.Sprintf("a whole number from 1 to %d", uint64(math.MaxUint64)>>(64-t.Bits()))
	}
	return "a whole number"
}

// shown quotes what was given.
func shown(value any) string {
	switch value.(type) {
	case string:
		return fmt.Sprintf("%q", value)
	case map[string]any:
		return "a map"
	case []any:
		return "a list"
	}
	if v := reflect.ValueOf(value); v.CanFloat() && v.Float() == math.Trunc(v.Float()) {
		return strconv.FormatFloat(v.Float(), 'f', 1, 64) // 100.0 is not 100
	}
	return fmt.Sprint(value)
}
