// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Iterate runs a program once for everything that its kind of iterator goes through:
// the elements of over, or nil where that is something else. The program writes
// nothing.
func Iterate(program *ebpf.Program, over *ebpf.Map) (err error) {
	iterator, err := link.AttachIter(link.IterOptions{Program: program, Map: over})
	if err != nil {
		return fmt.Errorf("iterating by %s: %w", program, err)
	}
	defer func() { err = errors.Join(err, iterator.Close()) }()
	run, err := iterator.Open()
	if err != nil {
		return fmt.Errorf("iterating by %s: %w", program, err)
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if _, err := io.Copy(io.Discard, run); err != nil {
		return fmt.Errorf("iterating by %s: %w", program, err)
	}
	return nil
}
