// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Iterator runs a program once for every element that its kind of iterator visits. The program writes no output to the iterator's file.
type Iterator struct {
	program *ebpf.Program
	link    *link.Iter
}

// NewIterator makes an iterator over the elements of a map. over is nil if the kind visits something else.
func NewIterator(program *ebpf.Program, over *ebpf.Map) (*Iterator, error) {
	made, err := link.AttachIter(link.IterOptions{Program: program, Map: over})
	if err != nil {
		return nil, fmt.Errorf("iterating by %s: %w", program, err)
	}
	return &Iterator{program: program, link: made}, nil
}

// Run visits every element once.
func (i *Iterator) Run() (err error) {
	run, err := i.link.Open()
	if err != nil {
		return fmt.Errorf("iterating by %s: %w", i.program, err)
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if _, err := io.Copy(io.Discard, run); err != nil {
		return fmt.Errorf("iterating by %s: %w", i.program, err)
	}
	return nil
}

// Close frees the iterator.
func (i *Iterator) Close() error { return i.link.Close() }

// Iterate makes an iterator, runs it once and closes it.
func Iterate(program *ebpf.Program, over *ebpf.Map) (err error) {
	iterator, err := NewIterator(program, over)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iterator.Close()) }()
	return iterator.Run()
}
