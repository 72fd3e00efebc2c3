// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/accuracy/judge"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// compilers build the programs that know what they do, optimized and without frame pointers as far as the language knows
// them; Go keeps them whatever one asks for.
var compilers = []struct {
	name string
	args []string
}{
	{"c-gcc", []string{"gcc", "-O2", "-fomit-frame-pointer", "-o", "", "known.c"}},
	{"c-clang", []string{"clang-19", "-O2", "-fomit-frame-pointer", "-o", "", "known.c"}},
	{"c++-gcc", []string{"g++", "-O2", "-fomit-frame-pointer", "-o", "", "known.cc"}},
	{"c++-clang", []string{"clang++-19", "-O2", "-fomit-frame-pointer", "-o", "", "known.cc"}},
	{"rust", []string{"rustc", "--edition", "2021", "-C", "opt-level=2", "-C", "force-frame-pointers=no", "--crate-name", "known", "-o", "", "known.rs"}},
	{"go", []string{"go", "build", "-o", "", "known.go"}},
	{"go-stripped", []string{"go", "build", "-ldflags=-s -w", "-o", "", "known.go"}},
}

// knownPrograms compiles them and returns their paths by name. A compiler that is not installed is logged.
func knownPrograms(t *testing.T) map[string]string {
	t.Helper()
	dir, paths := t.TempDir(), map[string]string{}
	for _, c := range compilers {
		path := filepath.Join(dir, "known-"+c.name)
		args := append([]string{}, c.args[1:]...)
		for i, arg := range args {
			if arg == "" {
				args[i] = path
			}
		}
		cmd := exec.Command(c.args[0], args...)
		cmd.Dir = filepath.Join("testdata", "known")
		if _, err := exec.LookPath(c.args[0]); err != nil {
			t.Logf("%s is left out: %v", c.name, err)
			continue
		}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", c.name, out)
		paths[c.name] = path
	}
	if len(paths) == 0 {
		t.Skip("no compiler of C, C++, Rust or Go is installed")
	}
	return paths
}

// runAll runs all programs at once and returns what each has printed: the amount of each function.
func runAll(t *testing.T, paths map[string]string, mode string, milliseconds int) map[string]map[string]float64 {
	t.Helper()
	return runWarm(t, paths, mode, milliseconds, func() {})
}

// runWarm is runAll of programs that wait for the end of their input, which comes when warm has returned.
func runWarm(t *testing.T, paths map[string]string, mode string, milliseconds int, warm func()) map[string]map[string]float64 {
	t.Helper()
	type running struct {
		*exec.Cmd
		out   bytes.Buffer
		input io.Closer
	}
	all := map[string]*running{}
	for name, path := range paths {
		r := &running{Cmd: exec.Command(path, mode, strconv.Itoa(milliseconds))}
		r.Stdout = &r.out
		var err error
		r.input, err = r.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, r.Start())
		t.Cleanup(func() { _ = r.Process.Kill() }) // it has ended, unless the test failed
		all[name] = r
	}
	warm()
	for _, r := range all {
		require.NoError(t, r.input.Close())
	}
	amounts := map[string]map[string]float64{}
	for name, r := range all {
		require.NoError(t, r.Wait(), name)
		amounts[name] = map[string]float64{}
		for line := range strings.Lines(r.out.String()) {
			var function string
			var amount float64
			_, err := fmt.Sscanf(line, "%s %f", &function, &amount)
			require.NoError(t, err, line)
			amounts[name][function] = amount
		}
	}
	return amounts
}

// shares are parts of the sum.
func shares(amounts map[string]float64) map[string]float64 {
	sum, parts := 0.0, map[string]float64{}
	for _, amount := range amounts {
		sum += amount
	}
	for function, amount := range amounts {
		parts[function] = amount / max(sum, 1)
	}
	return parts
}

// bare is a function's name without packages, types, parameters and what compilers add.
func bare(name string) string {
	name, _, _ = strings.Cut(name, "(")
	name, _, _ = strings.Cut(name, "<")
	for _, clone := range []string{".constprop.", ".isra.", ".part.", ".llvm."} {
		name, _, _ = strings.Cut(name, clone)
	}
	return name[strings.LastIndexAny(name, ":.")+1:]
}

// chain are the functions of the program itself, root first.
func chain(stack []pdata.FoldedFrame) string {
	var names []string
	for _, f := range stack {
		if f.Function != "" && f.Type != string(model.FrameKernel) {
			names = append(names, bare(f.Function))
		}
	}
	return strings.Join(names, " ")
}

// accounts are the shares that the programs are made for.
var accounts = map[string]map[string]float64{
	"blocked": {"blocked_a": 0.6, "blocked_b": 0.4},
	"alloc":   {"alloc_a": 0.7, "alloc_b": 0.3},
}

// TestKnownAccounts holds what the programs say of themselves to what they are made for. They do one thing and the other in turns, but on a busy
// machine sleeps take longer, and there may be no time to allocate.
func TestKnownAccounts(t *testing.T) {
	paths := knownPrograms(t)
	for mode, want := range accounts {
		for name, amounts := range runAll(t, paths, mode, 200) {
			require.Len(t, amounts, len(want))
			for function, share := range want {
				require.Contains(t, amounts, function, name)
				if mode == "blocked" {
					require.Positive(t, amounts[function], "%s of %s", function, name)
				} else if shares(amounts)[function] > 0 {
					require.InDelta(t, share, shares(amounts)[function], 1e-6, "%s of %s", function, name)
				}
			}
		}
	}
}

// TestMeasureKnownAccounts holds that the shares are as they should be on a quiet machine.
func TestMeasureKnownAccounts(t *testing.T) {
	paths := knownPrograms(t)
	for mode, want := range accounts {
		for name, amounts := range runAll(t, paths, mode, 200) {
			for function, share := range want {
				// Where others are at work each sleep takes longer by some time, the brief ones by a greater part.
				require.InDelta(t, share, shares(amounts)[function], 0.1, "%s of %s", function, name)
			}
		}
	}
}

// TestMeasureKnownShares checks that functions of optimized programs without frame pointers have the shares of samples, with their
// callers, that the programs themselves know.
func TestMeasureKnownShares(t *testing.T) {
	paths := knownPrograms(t)
	var exes []string
	for _, path := range paths {
		exes = append(exes, path)
	}
	o := startEngine(t, onCPU(exes...))
	truth := runAll(t, paths, "hot", 3000)
	profiles := o.end()
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			j := judge.New()
			t.Cleanup(func() { require.NoError(t, j.Close()) })
			total, got := 0.0, map[string]float64{}
			fold(t, of(profiles, path), func(s pdata.FoldedSample) {
				j.Add(s)
				total += float64(s.Value)
				for function := range truth[name] {
					if strings.Contains(chain(s.Stack), "outer inner "+function+" spin") {
						got[function] += float64(s.Value)
					}
				}
			})
			r := j.Result()
			t.Logf("%.0f samples, %d to the entry, ends %v, false callers %d of %d, errors %v", total, r.Whole, r.Ends, r.FalseCallers, r.Callers, r.Errors)
			require.Greater(t, total, 2000.0)
			for function, share := range shares(truth[name]) {
				t.Logf("%s: %.4f of the time, %.4f of the samples", function, share, got[function]/total)
				require.InDelta(t, share, got[function]/total, 0.03, function)
			}
			require.Len(t, truth[name], 3)
			// Less than the target: a run of 3 s has its first samples while the tables of the program are made.
			require.GreaterOrEqual(t, float64(r.Whole)/float64(r.Samples), 0.98, "ends: %v", r.Ends)
		})
	}
}

func of(profiles []*model.Profile, path string) []*model.Profile {
	var list []*model.Profile
	for _, p := range profiles {
		if p.Process.Executable == path {
			list = append(list, p)
		}
	}
	return list
}
