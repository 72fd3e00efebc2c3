// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// load is how busy the machine was, from /proc/stat and /proc/pressure/cpu (proc(5), Documentation/accounting/psi.rst).
type load struct {
	at       time.Time
	busy     float64       // CPU time of all processes, in ticks of 10 ms
	idle     float64       // that no process used
	steal    float64       // that a hypervisor gave to other guests
	waited   time.Duration // in which a process waited for a CPU
	pressure bool          // waited is known
}

func readLoad() load {
	stat, _ := os.ReadFile("/proc/stat") // without it nothing is known, and that is printed
	l := parseLoad(string(stat))
	l.at = time.Now()
	if text, err := os.ReadFile("/proc/pressure/cpu"); err == nil {
		l.waited, l.pressure = parsePressure(string(text))
	}
	return l
}

// parseLoad reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
func parseLoad(stat string) (l load) {
	var ticks [8]float64
	line, _, _ := strings.Cut(stat, "\n")
	if _, err := fmt.Sscanf(line, "cpu %g %g %g %g %g %g %g %g", &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]); err != nil {
		return load{}
	}
	l.busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]
	l.idle, l.steal = ticks[3]+ticks[4], ticks[7]
	return l
}

// parsePressure reads the line "some" of /proc/pressure/cpu.
func parsePressure(text string) (time.Duration, bool) {
	var ten, minute, five float64
	var total int64
	if _, err := fmt.Sscanf(text, "some avg10=%g avg60=%g avg300=%g total=%d", &ten, &minute, &five, &total); err != nil {
		return 0, false
	}
	return time.Duration(total) * time.Microsecond, true
}

// since returns what has passed since an earlier reading.
func (l load) since(before load) load {
	return load{at: l.at, busy: l.busy - before.busy, idle: l.idle - before.idle, steal: l.steal - before.steal, waited: (l.waited - before.waited) / max(1, time.Duration(l.at.Sub(before.at).Seconds())), pressure: l.pressure && before.pressure}
}

// String says it of a reading that since returned.
func (l load) String() string {
	all := l.busy + l.idle + l.steal
	if all == 0 {
		return "its load is unknown"
	}
	text := fmt.Sprintf("%d CPUs, busy %.0f %% of the time, taken by other guests (steal) %.1f %%", runtime.NumCPU(), 100*l.busy/all, 100*l.steal/all)
	if l.pressure {
		text += fmt.Sprintf(", a process waited for a CPU %.0f %% of the time", 100*l.waited.Seconds())
	}
	return text
}
