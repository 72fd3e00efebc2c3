// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/setting"
)

// faultsOf returns everything that is wrong with a configuration in which keys are unknown, values are of another type
// or texts lack their quotes: these faults, and what Validate finds in the rest.
func faultsOf(values map[string]any, keys, texts []fault) error {
	errs := make([]error, 0, len(keys)+len(texts))
	for _, f := range keys {
		errs = append(errs, f.err)
	}
	rest := restOf(values, keys)
	found := validateRest(rest, keys)
	for _, f := range texts {
		if slices.ContainsFunc(keys, func(k fault) bool { return k.path == f.path || isBelow(f.path, k.path) }) {
			continue
		}
		// No quotes make a number one of the values that are allowed, or an attribute one that can be set: that is of use then.
		if slices.ContainsFunc(found, func(err error) bool { return refuses(err, f.path) }) {
			continue
		}
		errs = append(errs, f.err)
		found = slices.DeleteFunc(found, func(err error) bool { path, _ := splitError(err); return path == f.path })
	}
	return errors.Join(append(errs, found...)...)
}

// validateRest returns what Validate finds in a part of a configuration, but what may come of the keys that it lacks.
func validateRest(rest map[string]any, missing []fault) []error {
	config := createDefaultConfig().(*Config)
	conf := confmap.NewFromStringMap(rest)
	if conf.IsSet("observe") {
		config.Observe = ObserveConfig{}
	}
	if conf.Unmarshal(config, confmap.WithIgnoreUnused()) != nil {
		return nil
	}
	return slices.DeleteFunc(setting.Split(config.Validate()), func(err error) bool {
		return slices.ContainsFunc(missing, func(f fault) bool { return dependsOn(err, f.path) })
	})
}

// dependsOn reports whether an error may come of the lack of a key.
func dependsOn(err error, key string) bool {
	path, text := splitError(err)
	if path == key || isBelow(key, path) || isBelow(path, key) {
		return true
	}
	parent, name := splitPath(key)
	return (isBelow(path, parent) || parent == "limits") && strings.Contains(text, name)
}

// refuses reports whether an error is that a text is none of those that are allowed, or that an attribute cannot be set.
func refuses(err error, key string) bool {
	path, text := splitError(err)
	parent, _ := splitPath(key)
	return path == key && strings.Contains(text, "is not allowed") || path == parent && strings.HasSuffix(parent, "::set")
}

// splitError parts the path of a key from what is wrong with it.
func splitError(err error) (path, text string) {
	path, text, _ = strings.Cut(err.Error(), ": ")
	return path, text
}

// splitPath parts the last key of a path from the others.
func splitPath(path string) (parent, name string) {
	if i := strings.LastIndex(path, confmap.KeyDelimiter); i >= 0 {
		return path[:i], path[i+len(confmap.KeyDelimiter):]
	}
	return "", path
}

// isBelow reports whether a path leads through another one.
func isBelow(path, above string) bool {
	after, ok := strings.CutPrefix(path, above)
	return ok && (strings.HasPrefix(after, confmap.KeyDelimiter) || strings.HasPrefix(after, "["))
}

// restOf copies a decoded configuration without the keys that are wrong, and without lists of which an element is. Numbers and
// the like for texts become texts.
func restOf(values map[string]any, wrong []fault) map[string]any {
	without := make(map[string]bool, len(wrong))
	for _, f := range wrong {
		without[f.path] = true
	}
	rest, _ := withoutKeys("", values, reflect.TypeFor[Config](), without)
	return rest.(map[string]any)
}

// withoutKeys is restOf for one value; false where nothing is left of it.
func withoutKeys(path string, value any, t reflect.Type, without map[string]bool) (rest any, ok bool) {
	if t == nil || without[path] {
		return nil, false
	}
	t = plain(t)
	switch given := value.(type) {
	case map[string]any:
		if t.Kind() == reflect.String {
			return nil, false
		}
		copied := make(map[string]any, len(given))
		for key, nested := range given {
			below := key
			if path != "" {
				below = path + confmap.KeyDelimiter + key
			}
			if left, ok := withoutKeys(below, nested, elementOf(t, key), without); ok {
				copied[key] = left
			}
		}
		return copied, true
	case []any:
		if t.Kind() != reflect.Slice {
			return nil, false
		}
		copied := make([]any, len(given))
		for i, nested := range given {
			left, ok := withoutKeys(fmt.Sprintf("%s[%d]", path, i), nested, t.Elem(), without)
			if !ok {
				return nil, false
			}
			copied[i] = left
		}
		return copied, true
	}
	if t.Kind() == reflect.String && value != nil {
		return fmt.Sprint(value), true
	}
	return value, true
}
