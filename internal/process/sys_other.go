// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import "errors"

// directory is the stand-in for platforms without /proc.
type directory int

func openDirectory(string) (directory, error) { return 0, errors.ErrUnsupported }

func (directory) close() error { return nil }

func (directory) read(string, []byte) (int, bool, error) { return 0, false, errors.ErrUnsupported }

func (directory) readParts(string, []byte, int, func([]byte, bool) (int, bool)) (bool, error) {
	return false, errors.ErrUnsupported
}

func (directory) readLink(string, []byte) ([]byte, error) { return nil, errors.ErrUnsupported }

func (directory) inRoot(string, string) bool { return false }

func readBootOffset() (int64, error) { return 0, errors.ErrUnsupported }
