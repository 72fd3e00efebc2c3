// SPDX-License-Identifier: Apache-2.0

package nettest

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Storm has several threads of the program connect, write some bytes and close, so often all together: numbers of
// descriptors are used again by one thread as soon as another has closed them.
func (p *Program) Storm(kind string, remote netip.AddrPort, threads, times int, bytes int64) Outcome {
	p.t.Helper()
	return p.must(order{Do: "storm", Kind: kind, Remote: remote, Threads: threads, Value: times, Transfer: Transfer{Bytes: bytes}})
}

// Absorb has several threads of the program accept, read all there is and close, so often all together.
func (s *Socket) Absorb(threads, times int) Outcome {
	s.program.t.Helper()
	return s.program.must(order{Do: "absorb", Socket: s.fd, Threads: threads, Value: times})
}

func storm(o order) (Outcome, error) {
	return onThreads(o, func() (int64, error) {
		fd, err := open(o.Kind)
		if err != nil {
			return 0, err
		}
		if err := unix.Connect(fd, address(o.Kind, o.Remote)); err != nil {
			return 0, errors.Join(err, unix.Close(fd))
		}
		n, err := unix.Write(fd, make([]byte, o.Bytes))
		return int64(n), errors.Join(err, unix.Close(fd))
	})
}

func absorb(o order) (Outcome, error) {
	return onThreads(o, func() (int64, error) {
		accepted, err := accept(o)
		if err != nil {
			return 0, err
		}
		read, err := read(order{Socket: accepted.Socket, Transfer: Transfer{How: "read", Bytes: 1 << 62}})
		return read.Bytes, errors.Join(err, unix.Close(accepted.Socket))
	})
}

// onThreads does something so often as the order has it, and adds up what it returns.
func onThreads(o order, once func() (int64, error)) (Outcome, error) {
	var bytes, calls, begun atomic.Int64
	failed := make([]error, o.Threads)
	var all sync.WaitGroup
	for i := range o.Threads {
		all.Go(func() {
			for begun.Add(1) <= int64(o.Value) {
				n, err := once()
				bytes.Add(n)
				calls.Add(1)
				if err != nil {
					failed[i] = err
					return
				}
			}
		})
	}
	all.Wait()
	return Outcome{Bytes: bytes.Load(), Calls: calls.Load()}, errors.Join(failed...)
}
