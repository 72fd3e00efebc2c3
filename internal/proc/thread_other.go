// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package proc

import "errors"

// ErrNoThread: no thread of a process shows it, since it exits or has exited.
var ErrNoThread = errors.New("no thread of it shows memory")

// Open is not supported here.
func Open(string, uint32) (fd int, id uint32, err error) { return -1, 0, errors.ErrUnsupported }

// Thread is not supported here.
func Thread(string, int, uint32) (fd int, id uint32, err error) { return -1, 0, errors.ErrUnsupported }

// Inside is not supported here.
func Inside(_ int, path string) string { return path }
