// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Sleepers are processes that do nothing.
type Sleepers struct{ *talker }

// SleepersComm is what the kernel calls them.
const SleepersComm = "sleepers"

// StartSleepers compiles the program into dir and has it start so many processes, and a second so many others that
// live for a millisecond, at most. Without a C compiler the error is [ErrAbsent].
func StartSleepers(ctx context.Context, dir string, nice, processes, forks int) (*Sleepers, error) {
	t, err := startTalker(ctx, dir, SleepersComm, nice, strconv.Itoa(processes), strconv.Itoa(forks))
	if err != nil {
		return nil, err
	}
	s := &Sleepers{t}
	line, err := t.answers.ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for processes that sleep: %w", err), s.Stop())
	}
	if line = strings.TrimSpace(line); line != strconv.Itoa(processes) {
		return nil, errors.Join(fmt.Errorf("starting processes that sleep: %s of %d, the host lets there be no more", line, processes), s.Stop())
	}
	return s, nil
}
