// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"errors"
	"fmt"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/process"
)

// delimiter separates the keys of a path.
const delimiter = "::"

// Selectors checks a list of selectors. What is wrong with a selector, or with a field of it, is prefixed with its path.
func Selectors(path string, list []process.Selector) []error {
	var errs []error
	for i := range list {
		_, err := list[i].Compile()
		for _, one := range Split(err) {
			separator := delimiter
			if errors.Is(one, process.ErrNoCondition) {
				separator = ": " // what follows is no field
			}
			errs = append(errs, fmt.Errorf("%s[%d]%s%w", path, i, separator, one))
		}
	}
	return errs
}

// WithoutSet refuses attributes where they would have no effect.
func WithoutSet(path string, list []process.Selector) []error {
	var errs []error
	for i := range list {
		if len(list[i].Set) > 0 {
			errs = append(errs, fmt.Errorf("%s[%d]::set: only selectors of targets::include set attributes", path, i))
		}
	}
	return errs
}

// Split returns the errors that errors.Join has joined.
func Split(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}
