// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"fmt"
	"slices"
	"strings"
)

// Between checks a value against a closed range.
func Between[T interface {
	~int | ~int64
}](path string, value, lowest, highest T,
) error {
	if value < lowest || value > highest {
		return fmt.Errorf("%s: %v is not allowed: it must lie between %v and %v", path, value, lowest, highest)
	}
	return nil
}

// OneOf checks a value against those that are allowed.
func OneOf(path, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s: %q is not allowed: it must be one of %s", path, value, strings.Join(allowed, ", "))
}

// EachOf checks each of a list of values.
func EachOf(path string, values, allowed []string) []error {
	var errs []error
	for i, value := range values {
		errs = append(errs, OneOf(fmt.Sprintf("%s[%d]", path, i), value, allowed))
	}
	return errs
}

// AtMost checks the number of elements of a list.
func AtMost(path string, n, most int) error {
	if n <= most {
		return nil
	}
	return fmt.Errorf("%s: %d elements are not allowed: at most %d", path, n, most)
}
