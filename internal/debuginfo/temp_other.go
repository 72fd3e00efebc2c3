// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package debuginfo

import (
	"errors"
	"io/fs"
	"os"
)

func unnamedFile(string, uint64) (*os.File, error) { return nil, errors.ErrUnsupported }

func openPlain(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func ownedByUs(fs.FileInfo) bool { return false }
