// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// judge compares the profiles of the steady service with the CPU time that the kernel says it has used.
type judge struct {
	pid, dir string
	interval time.Duration

	mu       sync.Mutex
	times    []used // of the last minute
	messages int
	total    int64 // samples of all processes
	unnamed  int64 // frames of files of attackers without a name
	victim   bool  // there is one
	genuine  int64 // frames of the victim with a name of its debug file
	falsely  int64 // frames of the victim with a name of an impostor
	secret   int64 // frames with a name of a file that root alone may read
	reader   bool  // there is one with a perf map of its own
	opened   int64 // frames with a name of that
	profiles []verdict
	// unsampled is how many intervals have no profile since the service had no CPU time to be sampled in.
	unsampled int
	// exported are the intervals of all profiles.
	exported []interval
}

// interval is one that profiles were exported of, of any process.
type interval struct{ start, end time.Time }

// used is the CPU time that the service had used at a time.
type used struct {
	at  time.Time
	cpu time.Duration
}

// verdict is about one profile of the service.
type verdict struct {
	start    time.Time
	length   time.Duration
	period   time.Duration
	samples  int64
	expected float64
	named    map[string]int64
	nameless int64 // samples whose innermost frame has no name
	wrong    []string
}

// watch notes the service's CPU time until done is closed.
func (j *judge) watch(done <-chan struct{}) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if cpu, err := j.cpu(); err == nil {
			j.mu.Lock()
			j.times = append(j.times, used{time.Now(), cpu})
			if len(j.times) > 6000 {
				j.times = slices.Delete(j.times, 0, 3000)
			}
			j.mu.Unlock()
		}
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// cpu adds up what the kernel's schedstat says of the threads.
func (j *judge) cpu() (time.Duration, error) {
	threads, err := os.ReadDir("/proc/" + j.pid + "/task")
	if err != nil {
		return 0, err
	}
	total := time.Duration(0)
	for _, t := range threads {
		text, err := os.ReadFile("/proc/" + j.pid + "/task/" + t.Name() + "/schedstat")
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(n)
	}
	return total, nil
}

// between is the CPU time used from one time to another.
func (j *judge) between(from, to time.Time) time.Duration { return j.until(to) - j.until(from) }

func (j *judge) until(at time.Time) time.Duration {
	i, _ := slices.BinarySearchFunc(j.times, at, func(u used, at time.Time) int { return u.at.Compare(at) })
	switch {
	case len(j.times) == 0:
		return 0
	case i == 0:
		return j.times[0].cpu
	case i == len(j.times):
		return j.times[i-1].cpu
	}
	before, after := j.times[i-1], j.times[i]
	part := float64(at.Sub(before.at)) / float64(after.at.Sub(before.at))
	return before.cpu + time.Duration(part*float64(after.cpu-before.cpu))
}

// message takes one message of the Collector.
func (j *judge) message(line []byte) {
	time.Sleep(50 * time.Millisecond) // until the CPU time at its end was noted
	j.mu.Lock()
	defer j.mu.Unlock()
	j.messages++
	found := map[time.Time]*verdict{}
	err := pdata.FoldJSON(line, func(s pdata.FoldedSample) error {
		j.total += s.Value
		j.note(interval{s.Profile.Start, s.Profile.Start.Add(s.Profile.Duration)})
		pid, ok := s.Resource.Get("process.pid")
		if !ok || strconv.FormatInt(pid.Int(), 10) != j.pid {
			j.foreign(s)
			return nil
		}
		v := found[s.Profile.Start]
		if v == nil {
			v = &verdict{
				start: s.Profile.Start, length: s.Profile.Duration, period: time.Duration(s.Profile.Period), named: map[string]int64{},
			}
			found[s.Profile.Start] = v
		}
		j.add(v, s)
		return nil
	})
	if err != nil {
		j.profiles = append(j.profiles, verdict{wrong: []string{err.Error()}})
	}
	// An interval in which the period changed has two.
	for _, start := range slices.SortedFunc(maps.Keys(found), time.Time.Compare) {
		j.decide(found[start])
		j.profiles = append(j.profiles, *found[start])
	}
}

// foreign counts the frames of attackers' files that have no name.
func (j *judge) foreign(s pdata.FoldedSample) {
	for _, f := range s.Stack {
		if f.Function == "" && strings.HasPrefix(f.Mapping, j.dir) {
			j.unnamed += s.Value
		}
		j.checkName(s, f.Function)
	}
}

// checkName counts the names that only some may have.
func (j *judge) checkName(s pdata.FoldedSample, name string) {
	service, _ := s.Resource.Get("service.name")
	switch {
	case strings.HasPrefix(name, secretPrefix):
		j.secret += s.Value
	case strings.HasPrefix(name, openPrefix):
		j.opened += s.Value
	case service.Str() != victimRole:
	case strings.HasPrefix(name, falsePrefix):
		j.falsely += s.Value
	case strings.HasPrefix(name, truePrefix):
		j.genuine += s.Value
	}
}

func (j *judge) add(v *verdict, s pdata.FoldedSample) {
	v.samples += s.Value
	name := ""
	for _, f := range s.Stack {
		if strings.HasPrefix(f.Mapping, j.dir) && f.Function == "" {
			v.nameless += s.Value
			return
		}
		if isSteady(f.Function) {
			name = f.Function
		}
	}
	v.named[name] += s.Value
}

// decide says what is wrong with a profile.
func (j *judge) decide(v *verdict) {
	v.expected = float64(j.between(v.start, v.start.Add(v.length))) / float64(max(v.period, 1))
	if math.Abs(float64(v.samples)-v.expected) > mayBeOff(v.expected) {
		v.wrong = append(v.wrong, fmt.Sprintf("%d samples, %.1f expected of its CPU time", v.samples, v.expected))
	}
	if v.nameless > 0 {
		v.wrong = append(v.wrong, fmt.Sprintf("%d of %d samples have frames of the service without a name", v.nameless, v.samples))
	}
	if own := v.samples - v.named[""]; float64(own) >= 20*(steadyFunctions+1) {
		for i := range steadyFunctions {
			if v.named[steadyName(i)] == 0 {
				v.wrong = append(v.wrong, "no sample of "+steadyName(i))
			}
		}
		if v.named[goFunction] == 0 {
			v.wrong = append(v.wrong, "no sample of "+goFunction)
		}
	}
	j.decideGap(v)
	if v.length > 2*j.interval {
		v.wrong = append(v.wrong, fmt.Sprintf("its interval is %s", v.length))
	}
}

// mayBeOff is how many samples may be more or less than are expected. Those of a timer are less scattered than random ones; a tenth is for the
// moments of the clocks.
func mayBeOff(expected float64) float64 { return 4*math.Sqrt(expected) + 0.1*expected + 2 }

// note keeps an interval that profiles were exported of.
func (j *judge) note(of interval) {
	if n := len(j.exported); n == 0 || j.exported[n-1] != of {
		j.exported = append(j.exported, of)
	}
}

// covered reports whether profiles of some process were exported of all the time.
func (j *judge) covered(from, to time.Time) bool {
	tolerated := j.interval / 4
	for _, of := range j.exported {
		if !of.start.After(from.Add(tolerated)) && of.end.After(from) {
			from = of.end
		}
	}
	return !from.Before(to.Add(-tolerated))
}

// lastEnd is the end of the last interval that was exported.
func (j *judge) lastEnd() (end time.Time) {
	for _, of := range j.exported {
		if of.end.After(end) {
			end = of.end
		}
	}
	return end
}

// decideGap reports whether profiles are missing before one. An interval in which no sample met the service has none of it, but those of others.
func (j *judge) decideGap(v *verdict) {
	if len(j.profiles) == 0 {
		return
	}
	before := j.profiles[len(j.profiles)-1]
	end := before.start.Add(before.length)
	gap := v.start.Sub(end)
	if gap.Abs() <= j.interval/4 {
		return
	}
	missed := float64(j.between(end, v.start)) / float64(max(v.period, 1))
	if gap < 0 || missed > mayBeOff(missed) || !j.covered(end, v.start) {
		v.wrong = append(v.wrong, fmt.Sprintf("%s between it and the profile before, with CPU time for %.1f samples", gap, missed))
		return
	}
	j.unsampled += int((gap + j.interval/2) / j.interval)
}
