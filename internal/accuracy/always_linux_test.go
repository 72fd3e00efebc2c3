// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package main

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/accuracy/judge"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/pdata"
)

// always are programs that every Debian has, as it packages them: stripped, without frame pointers.
var always = map[string][]string{
	"bash": {"-c", `f() { local i; for ((i = 0; i < 200; i++)); do a[i]=$((i * 7919 % 211)); done; [[ "${a[*]}" =~ (1+)\ (2+) ]]; printf -v x '%s' "${a[@]}"; }
		while :; do f; y=$(f); done`},
	"perl": {"-e", `sub f { my $n = shift; $n < 2 ? $n : f($n - 1) + f($n - 2) }
		while (1) { f(12); my @a = sort { $a <=> $b } map { $_ * 7919 % 1009 } 1 .. 500; my $s = "@a"; $s =~ s/(\d+) (\d+)/$2 $1/g; my %h = map { $_ => 1 } @a }`},
}

// TestAlwaysWhole is `make accuracy` in short, on programs that are there in every Debian: as soon as their unwind tables are made, nearly all
// stacks are whole and true.
func TestAlwaysWhole(t *testing.T) {
	alwaysRun(t, func(t *testing.T, o *observed, pid int) {
		for began := time.Now(); ; {
			require.Eventually(t, func() bool { return judged(t, o.exported(), pid).Samples > 500 }, time.Minute, 200*time.Millisecond)
			r := judged(t, o.take(), pid)
			t.Logf("%d samples, %d to the entry, ends %v", r.Samples, r.Whole, r.Ends)
			if float64(r.Whole)/float64(r.Samples) >= 0.99 && float64(r.Contradicted)/float64(r.Samples) <= 0.01 &&
				float64(r.FalseCallers)/float64(r.Callers) <= 0.005 {
				return
			}
			require.Less(t, time.Since(began), time.Minute, "contradicted %d, false callers %d of %d, %v", r.Contradicted, r.FalseCallers, r.Callers, r.FalseEnds)
		}
	})
}

// TestMeasureAlwaysWhole holds that they are from then on.
func TestMeasureAlwaysWhole(t *testing.T) {
	alwaysRun(t, func(t *testing.T, o *observed, pid int) {
		// Stacks are whole as soon as the unwind tables are made; a busy machine makes them late.
		var first judge.Result
		for began := time.Now(); 2*first.Whole <= first.Samples; {
			require.Less(t, time.Since(began), time.Minute, "no unwind tables: %v", first.Ends)
			time.Sleep(1500 * time.Millisecond)
			first = judged(t, o.take(), pid)
		}
		time.Sleep(3 * time.Second)
		r := judged(t, o.end(), pid)
		t.Logf("at first: %d samples, %d to the entry; then: %d, %d, %d of %d frames without a name where symbols exist; ends %v", first.Samples, first.Whole,
			r.Samples, r.Whole, r.Frames.UnnamedWithSymbols, r.Frames.WithSymbols, r.Ends)
		require.Greater(t, r.Samples, int64(500))
		require.GreaterOrEqual(t, float64(r.Whole)/float64(r.Samples), 0.99, "ends: %v", r.Ends)
		require.LessOrEqual(t, float64(r.Contradicted)/float64(r.Samples), 0.01)
		require.LessOrEqual(t, float64(r.FalseCallers)/float64(r.Callers), 0.005, "%v", r.FalseEnds)
	})
}

// alwaysRun passes each program as it runs, with what observes it.
func alwaysRun(t *testing.T, judge func(t *testing.T, o *observed, pid int)) {
	t.Helper()
	for name, args := range always {
		t.Run(name, func(t *testing.T) {
			path, err := filepath.EvalSymlinks("/usr/bin/" + name)
			if err != nil {
				t.Skipf("not a Debian: %v", err)
			}
			o := startEngine(t, onCPU(path))
			program := exec.Command(path, args...)
			require.NoError(t, program.Start())
			defer func() {
				require.NoError(t, program.Process.Kill())
				require.Error(t, program.Wait(), "it was killed")
			}()
			judge(t, o, program.Process.Pid)
		})
	}
}

// judged judges the profiles of one process.
func judged(t *testing.T, profiles []*model.Profile, pid int) judge.Result {
	t.Helper()
	j := judge.New()
	fold(t, profiles, func(s pdata.FoldedSample) {
		if id, _ := s.Resource.Get(pdata.KeyProcessPID); id.Int() == int64(pid) {
			j.Add(s)
		}
	})
	require.NoError(t, j.Close())
	return j.Result()
}
