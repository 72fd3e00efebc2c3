// SPDX-License-Identifier: Apache-2.0

// Known is the same as known.c: known MODE MILLISECONDS.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

const (
	cycle = 16180340 // ns, ten times the golden ratio in ms
	unit  = 160000
)

var (
	sink uint64
	room []byte
)

// used is the CPU time of the process: CLOCK_PROCESS_CPUTIME_ID is 2.
func used() uint64 {
	var t syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 2, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		panic(errno)
	}
	return uint64(t.Nano())
}

//go:noinline
func spin(seed uint64) uint64 {
	for range unit {
		seed = seed*6364136223846793005 + seed>>33
	}
	return seed
}

//go:noinline
func hot_a(seed uint64) uint64 {
	values := [4]uint64{seed, seed + 1, seed + 2, seed + 3}
	sink = spin(values[seed&3])
	return sink + values[seed&1]
}

//go:noinline
func hot_b(seed uint64) uint64 { return spin(seed^5) + sink }

//go:noinline
func hot_c(seed uint64) uint64 {
	first := spin(seed | 1)
	return first/(first&7+1) + sink
}

//go:noinline
func inner(seed, turn uint64) uint64 {
	switch {
	case turn < 5:
		seed += hot_a(seed)
	case turn < 8:
		seed += hot_b(seed)
	default:
		seed += hot_c(seed)
	}
	return seed ^ sink
}

//go:noinline
func outer(seed, turn uint64) uint64 { return inner(seed+1, turn) ^ sink }

func hot(total uint64) {
	var spent [3]uint64
	seed := total
	for before := used(); before < total; {
		turn := before % cycle / (cycle / 10)
		seed = outer(seed, turn)
		after := used()
		switch {
		case turn < 5:
			spent[0] += after - before
		case turn < 8:
			spent[1] += after - before
		default:
			spent[2] += after - before
		}
		before = after
	}
	fmt.Printf("hot_a %d\nhot_b %d\nhot_c %d\n", spent[0], spent[1], spent[2])
}

// kept is something to do after a call.
func kept(value uint64) uint64 {
	sink = value
	return value
}

//go:noinline
func rest(d time.Duration) uint64 {
	before := time.Now()
	t := syscall.NsecToTimespec(int64(d))
	if err := syscall.Nanosleep(&t, nil); err != nil && err != syscall.EINTR {
		panic(err)
	}
	return uint64(time.Since(before))
}

//go:noinline
func blocked_a() uint64 { return kept(rest(30 * time.Millisecond)) }

//go:noinline
func blocked_b() uint64 { return kept(rest(20 * time.Millisecond)) }

func blocked(total uint64) {
	var a, b uint64
	for a+b < total {
		a += blocked_a()
		b += blocked_b()
	}
	fmt.Printf("blocked_a %d\nblocked_b %d\n", a, b)
}

//go:noinline
func take(size uint64) uint64 {
	room = make([]byte, size)
	return size
}

//go:noinline
func alloc_a() uint64 { return kept(take(7168)) }

//go:noinline
func alloc_b() uint64 { return kept(take(1024) + take(2048)) }

//go:noinline
func alloc_warm() uint64 { return kept(take(4096)) }

// pollInput is struct pollfd: standard input, POLLIN.
type pollInput struct {
	fd              int32
	events, revents int16
}

// hasInput waits a millisecond for input or its end.
func hasInput() bool {
	input, millisecond := pollInput{events: 1}, syscall.Timespec{Nsec: 1e6}
	n, _, _ := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&input)), 1, uintptr(unsafe.Pointer(&millisecond)), 0, 0, 0)
	return n == 1
}

func alloc(total uint64) {
	for !hasInput() {
		alloc_warm()
	}
	var a, b uint64
	for began := time.Now(); uint64(time.Since(began)) < total; {
		a += alloc_a()
		b += alloc_b()
	}
	fmt.Printf("alloc_a %d\nalloc_b %d\n", a, b)
}

func main() {
	milliseconds, err := strconv.ParseUint(os.Args[2], 10, 32)
	if err != nil {
		panic(err)
	}
	total := milliseconds * 1e6
	switch os.Args[1] {
	case "hot":
		hot(total)
	case "blocked":
		blocked(total)
	case "alloc":
		alloc(total)
	default:
		os.Exit(2)
	}
}
