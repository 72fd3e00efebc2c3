// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package functions

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/elfimage"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/symbol"
)

// maxBinaries bounds the binaries whose functions are remembered.
const maxBinaries = 4096

// binaries remembers what was found of binaries, by content.
type binaries[F any] map[string]F

// of returns what is found of a region's binary. One that cannot be read for what it
// is has nothing; the error is then logged once.
func (b *binaries[F]) of(r symbol.Region, file *symbol.RegionFile, find func(elfimage.Image) (F, error)) (found F, err error) {
	if known, ok := (*b)[r.Content]; ok {
		return known, nil
	}
	image, closeFile, err := file.Open()
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, closeFile()) }()
	found, err = find(image)
	if *b == nil || len(*b) >= maxBinaries {
		*b = binaries[F]{} // they are found again
	}
	(*b)[r.Content] = found
	return found, err
}

// attach attaches to the functions of a file in a process. What fails is counted.
func (a *Attacher[F]) attach(t *target[F], r symbol.Region) file[F] {
	made := file[F]{to: &Attachment{}}
	held, err := t.space.HoldRegion(r)
	if err != nil {
		if !errors.Is(err, symbol.ErrProcessExited) && !errors.Is(err, symbol.ErrNoFile) {
			a.fail(t, r, err)
		}
		return made
	}
	defer held.Close() //nolint:errcheck // an O_PATH descriptor: nothing is lost
	made.found, err = a.binaries.of(r, held, a.config.Find)
	if err != nil {
		a.fail(t, r, fmt.Errorf("looking for it: %w", err))
	}
	if !a.config.Wants(made.found) {
		return made
	}
	if !a.mayHold(t) {
		made.to = nil
		return made
	}
	if err := a.config.Attach(made.to, made.found, held.Path(), t.id.PID); err != nil {
		a.fail(t, r, err)
	}
	for _, one := range made.to.probes {
		a.functions.Add(int64(one.functions))
	}
	return made
}

// fail counts what could not be attached to, and logs it now and then. A
// process that has exited since is no failure.
func (a *Attacher[F]) fail(t *target[F], r symbol.Region, err error) {
	if errors.Is(err, unix.ESRCH) {
		return
	}
	a.lose(fmt.Errorf("attaching to %s in %s of process %d: %w", a.config.What, r.Path(), t.id.PID, err))
}

func (a *Attacher[F]) lose(err error) {
	a.failed.Add(1)
	a.warnings.Warn(err)
}
