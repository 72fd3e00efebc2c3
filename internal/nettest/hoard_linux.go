// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Hoard has the program open this many Unix sockets, in pairs, that are never used.
func (p *Program) Hoard(sockets int) {
	p.t.Helper()
	p.must(order{Do: "hoard", Value: sockets})
}

// besides is more than a program has open else.
const besides = 500

func hoard(o order) (Outcome, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return Outcome{}, err
	}
	limit.Cur = uint64(o.Value + besides)
	limit.Max = max(limit.Max, limit.Cur)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return Outcome{}, fmt.Errorf("allowing for %d descriptors: %w", limit.Cur, err)
	}
	for range o.Value / 2 {
		if _, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return Outcome{}, err
		}
	}
	return Outcome{}, nil
}
