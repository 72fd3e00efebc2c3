// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/follow"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/profilefile"
)

// writeProfiles writes the profiles of the folder in the formats that are asked for, and what it wrote to out.
func writeProfiles(opts options, out io.Writer) error {
	path := opts.file(profilesFile)
	b := profilefile.NewBuilder(opts.sampleType)
	bad, badWhy := 0, error(nil)
	file := follow.File{Path: path, Whole: true}
	defer file.Close()
	if _, err := file.Poll(func(line []byte) {
		if err := pdata.FoldJSON(line, b.Add); err != nil {
			bad++
			badWhy = err
		}
	}); err != nil {
		return err
	}
	if b.Stacks() == 0 {
		return errors.Join(fmt.Errorf("nothing to write: %s has no samples of type %s (%s of others)", path, opts.sampleType, grouped(b.Other)), badWhy)
	}
	for _, f := range []struct {
		path  string
		write func(io.Writer) error
	}{{opts.pprof, b.WritePprof}, {opts.folded, b.WriteFolded}} {
		if f.path == "" {
			continue
		}
		if err := writeFile(f.path, f.write); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s %s in %s stacks\n", f.path, grouped(b.Samples), b.Unit(), grouped(int64(b.Stacks())))
	}
	if n := file.TakeOversized(); n > 0 || bad > 0 || b.Excess > 0 {
		fmt.Fprintf(out, "left out: %d lines that are too long, %d that are not readable, %s samples beyond the bound of stacks\n", n, bad, grouped(b.Excess))
	}
	return nil
}

// writeFile writes a file for its owner alone: it names functions and paths of what other users run.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("creating the file to write: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}
