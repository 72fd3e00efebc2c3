// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package network

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/bpf/bindings"
)

// Series are shared among processes by max-min fairness: once most of them are in use, no process has more than the level at which some are
// left free. Excess series count in the overflow series of their process. So a process that has many peers cannot keep others from having
// theirs.

const (
	// scarceShare is the part of all series from which on they are shared, plentyShare that below which they are no longer shared.
	scarceShare, plentyShare = 2, 4
	// keptFree is the part of all series that is kept free for processes that begin.
	keptFree = 8
)

// shares is the state of sharing.
type shares struct {
	counts  *ebpf.Map             // of the kernel: how many each process has
	allowed func(level any) error // sets how many each may have
	sharing bool
}

func openShares(coll *ebpf.Collection) shares {
	return shares{counts: coll.Maps[bindings.NetworkMapNetworkShares], allowed: coll.Variables[bindings.NetworkVarSeriesAllowed].Set}
}

// share evicts the series that processes have beyond their shares, and sets these shares in the kernel.
func (t *table) share() error {
	taken, used := map[bindings.NetworkNetworkProcess][]*series{}, 0
	for id, s := range t.live {
		if id == hostSeries || s.leaving || s.key.Overflow != 0 {
			continue
		}
		taken[s.shareholder()] = append(taken[s.shareholder()], s)
		used++
	}
	all := len(t.slots.items) - len(t.slots.items)/spare - 1
	switch {
	case !t.shares.sharing && used < all/scarceShare:
		return nil
	case used < all/plentyShare:
		t.shares.sharing = false
		return t.allow(math.MaxUint32)
	}
	t.shares.sharing = true
	wants := make([]int, 0, len(taken))
	for _, of := range taken {
		wants = append(wants, len(of))
	}
	level := fairLevel(wants, all-all/keptFree)
	var errs []error
	for _, of := range taken {
		errs = append(errs, t.evictBeyond(of, level))
	}
	// The counts are written first: by the old ones, processes would be refused series that they may have.
	return errors.Join(append(errs, t.writeShares(taken, level), t.allow(uint32(level)))...)
}

// shareholder returns the process of the series, as the key of the kernel's map of shares.
func (s *series) shareholder() bindings.NetworkNetworkProcess {
	return bindings.NetworkNetworkProcess{StartBoottime: s.key.StartBoottime, Pid: s.key.Pid, ExecId: s.key.ExecId}
}

// fairLevel returns the level at which wants must be cut so that their sum is at most all; a want below the level is not cut. If the sum is
// less, each want may grow by all that is left. It changes the order of wants.
func fairLevel(wants []int, all int) int {
	slices.Sort(wants)
	left := all
	for i, want := range wants {
		if level := left / (len(wants) - i); want > level {
			return max(level, 1)
		}
		left -= want
	}
	if len(wants) > 0 {
		left += wants[len(wants)-1]
	}
	return max(left, 1)
}

func (t *table) allow(level uint32) error {
	if err := t.shares.allowed(level); err != nil {
		return fmt.Errorf("sharing the kernel's series: %w", err)
	}
	return nil
}

// evictBeyond evicts the series of a process beyond the level: those first that have been unused for longest, and of the others the newest.
func (t *table) evictBeyond(of []*series, level int) error {
	if len(of) <= level {
		return nil
	}
	slices.SortFunc(of, func(x, y *series) int { return cmp.Or(cmp.Compare(y.idle, x.idle), y.started.Compare(x.started)) })
	for _, s := range of[:len(of)-level] {
		if err := t.release(s); err != nil {
			return err
		}
	}
	return nil
}

// writeShares corrects the kernel's counts, which only increase by themselves.
func (t *table) writeShares(taken map[bindings.NetworkNetworkProcess][]*series, level int) error {
	var stale []bindings.NetworkNetworkProcess
	var who bindings.NetworkNetworkProcess
	var count uint32
	entries := t.shares.counts.Iterate()
	for entries.Next(&who, &count) {
		if taken[who] == nil {
			stale = append(stale, who)
		}
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("reading how the kernel's series are shared: %w", err)
	}
	for _, who := range stale {
		if err := t.shares.counts.Delete(&who); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("correcting how the kernel's series are shared: %w", err)
		}
	}
	// The map may be full of processes that have begun since. A process without a count starts at zero: those with the most series are
	// written first.
	holders := slices.SortedFunc(maps.Keys(taken), func(x, y bindings.NetworkNetworkProcess) int { return cmp.Compare(len(taken[y]), len(taken[x])) })
	for _, who := range holders {
		count := uint32(min(len(taken[who]), level))
		switch err := t.shares.counts.Update(&who, &count, ebpf.UpdateAny); {
		case errors.Is(err, unix.E2BIG):
			return nil
		case err != nil:
			return fmt.Errorf("correcting how the kernel's series are shared: %w", err)
		}
	}
	return nil
}

// release ends a series: it is exported once more, and its slot is free then.
func (t *table) release(s *series) error {
	if err := t.ids.Delete(&s.key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("freeing a series: %w", err)
	}
	t.slots.items[s.id].Generation++
	s.leaving = true
	return nil
}
