// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package kernelsym

import "errors"

// Open returns an error: the kernel is asked on Linux alone.
func Open() (Asker, error) { return nil, errors.ErrUnsupported }
