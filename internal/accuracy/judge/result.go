// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"cmp"
	"maps"
	"slices"
)

// Result is what was found of one program. Counts are samples, or frames of samples.
type Result struct {
	Samples int64 // all but those of Exiting
	// Exiting are samples of tasks that the kernel was ending, not counted anywhere else.
	Exiting int64
	Whole   int64 // whose stack reaches the entry of its thread
	// Later and LaterWhole are the same counts without the first interval, in which the receiver discovers the program.
	Later, LaterWhole int64
	Entries           map[Entry]int64
	Errors            map[string]int64 // by what the receiver says of the stack, whole ones left out
	// Contradicted are the samples that the receiver calls whole and that are not, or the other way round.
	Contradicted int64
	// Ends are the root-most frames of stacks that do not reach an entry.
	Ends map[End]int64
	// Frames are those of all samples, Mappings the same by file, "kernel" and "no file".
	Frames   Frames
	Mappings map[string]Frames
	// Callers are callers whose code could be read, FalseCallers those whose address follows no call instruction.
	Callers, FalseCallers int64
	FalseEnds             map[End]int64
	Notes                 []string
}

// Frames counts frames, each as often as it was sampled.
type Frames struct {
	All, Unnamed                    int64
	WithSymbols, UnnamedWithSymbols int64
}

func (f *Frames) add(more Frames) {
	f.All += more.All
	f.Unnamed += more.Unnamed
	f.WithSymbols += more.WithSymbols
	f.UnnamedWithSymbols += more.UnnamedWithSymbols
}

// End is a frame at which a stack ends too early.
type End struct {
	Mapping  string
	Address  uint64 // in the file; 0: of no meaning
	Function string
	Error    string // what the receiver says
}

func (r *Result) addEnd(end End, n int64) {
	if _, known := r.Ends[end]; !known && len(r.Ends) >= maxEnds {
		end = End{Mapping: "others"}
	}
	r.Ends[end] += n
}

func (r *Result) addFalse(end End, n int64) {
	if r.FalseEnds == nil {
		r.FalseEnds = map[End]int64{}
	}
	if _, known := r.FalseEnds[end]; !known && len(r.FalseEnds) >= maxEnds {
		end = End{Mapping: "others"}
	}
	r.FalseEnds[end] += n
}

// Common returns the n most frequent, the most frequent first.
func Common[K comparable](counts map[K]int64, n int, less func(a, b K) int) []K {
	keys := slices.Collect(maps.Keys(counts))
	slices.SortFunc(keys, func(a, b K) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), less(a, b))
	})
	return keys[:min(n, len(keys))]
}

// MarshalText makes an end a key of JSON objects.
func (e End) MarshalText() ([]byte, error) { return []byte(e.String()), nil }
