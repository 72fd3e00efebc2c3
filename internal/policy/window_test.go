// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// naive is what a window is, without being clever: it remembers everything.
type naive struct {
	threshold float64
	period    int64
	kept      int64
	head      int64
	cells     map[int64]cell
}

func (n *naive) change(second int64, how func(*cell)) bool {
	n.head = max(n.head, second)
	if second <= n.head-n.kept {
		return false
	}
	c := n.cells[second]
	how(&c)
	n.cells[second] = c
	return true
}

func (n *naive) reached(now int64) (count int, newest float64) {
	n.head = max(n.head, now)
	for s := now - n.period + 1; s <= now; s++ {
		if c := n.cells[s]; c.n > 0 && c.sum/c.n >= n.threshold {
			count++
			newest = c.sum / c.n
		}
	}
	return count, newest
}

// run does to both what the bytes say, and compares them after each step.
func run(t *testing.T, period, kept int, steps []byte) {
	t.Helper()
	const threshold = 5
	w := makeWindow(threshold, period, kept)
	n := &naive{threshold: threshold, period: int64(period), kept: int64(len(w.cells)), cells: map[int64]cell{}}
	now := int64(1_800_000_000)
	for i := 0; i+2 < len(steps); i += 3 {
		op, at, value := steps[i]%5, now-int64(steps[i+1]%24)+spare, float64(steps[i+2]%11)
		if steps[i+2] > 240 { // added before the next evaluation
			at = now + n.kept
		}
		switch op {
		case 0:
			require.Equal(t, n.change(at, func(c *cell) { *c = cell{value, 1} }), w.put(at, value))
		case 1:
			require.Equal(t, n.change(at, func(c *cell) { c.sum, c.n = c.sum+value, c.n+1 }), w.add(at, value, 1))
		case 2:
			now++
		case 3:
			now += int64(steps[i+1])
		default: // the head is what both have
			now = max(now, n.head)
		}
		if now < n.head-n.kept { // who looks looks at seconds that have ended
			now = n.head - n.kept
		}
		count, newest := n.reached(now)
		require.Equal(t, count, w.reached(now), "step %d", i/3)
		for _, c := range []int{1, count, count + 1, period} {
			require.Equal(t, count >= c, w.holds(now, c))
		}
		if count > 0 {
			require.Equal(t, newest, w.current(now), "step %d", i/3)
		}
	}
}

// TestWindowAgainstModel runs random streams against an implementation that remembers everything.
func TestWindowAgainstModel(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		steps := make([]byte, 3*400)
		for i := range steps {
			steps[i] = byte(draw.UintN(256))
			if i%3 == 0 && draw.UintN(8) > 0 {
				steps[i] = byte(draw.UintN(3)) // few leaps
			}
		}
		run(t, 1+draw.IntN(200), spare+draw.IntN(20), steps)
	}
}

func FuzzWindow(f *testing.F) {
	f.Add(uint16(10), uint8(16), []byte{0, 2, 9, 2, 0, 0, 1, 3, 9, 3, 80, 0, 0, 2, 5})
	f.Fuzz(func(t *testing.T, period uint16, kept uint8, steps []byte) {
		run(t, 1+int(period%4000), spare+int(kept%32), steps)
	})
}

// TestWindow is what a rule of three seconds in five sees.
func TestWindow(t *testing.T) {
	const none = -1
	for name, tc := range map[string]struct {
		values []float64 // of one second each; none: it has none
		holds  []bool
	}{
		"shorter than count": {[]float64{9, 9, 0, 0, 0, 0, 9}, []bool{false, false, false, false, false, false, false}},
		"in a row":           {[]float64{9, 9, 9}, []bool{false, false, true}},
		"with gaps":          {[]float64{9, 0, 9, none, 9, none}, []bool{false, false, false, false, true, false}},
		"equal is enough":    {[]float64{5, 5, 5}, []bool{false, false, true}},
		"just below":         {[]float64{4.9, 4.9, 4.9}, []bool{false, false, false}},
		"ages without values": {
			[]float64{9, 9, 9, none, none, none}, []bool{false, false, true, true, true, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := makeWindow(5, 5, keptGauge)
			for i, v := range tc.values {
				second := int64(1000 + i)
				if v != none {
					require.True(t, w.put(second, v))
				}
				require.Equal(t, tc.holds[i], w.holds(second, 3), "second %d", i)
			}
		})
	}
}

// TestLateValues holds that what arrives late changes the second it is of.
func TestLateValues(t *testing.T) {
	w := makeWindow(5, 10, LateBy)
	require.True(t, w.add(1000, 9, 1))
	require.True(t, w.add(1003, 9, 1))
	require.Equal(t, 2, w.reached(1003))
	require.True(t, w.add(1000, 0, 1), "the mean of second 1000 is 4.5 now")
	require.Equal(t, 1, w.reached(1003))
	require.True(t, w.add(1002, 7, 1))
	require.Equal(t, 2, w.reached(1003))
	require.Equal(t, 9.0, w.current(1003))
	require.Equal(t, 7.0, w.current(1002), "what has not ended is not looked at")
	require.False(t, w.add(1003-int64(len(w.cells)), 9, 1), "too late")
}

// TestPeriodsAreTheirOwn holds that a rule counts its own period alone.
func TestPeriodsAreTheirOwn(t *testing.T) {
	short, long := makeWindow(5, 3, keptGauge), makeWindow(5, 10, keptGauge)
	for s := int64(1000); s < 1003; s++ {
		short.put(s, 9)
		long.put(s, 9)
	}
	for s := int64(1003); s <= 1009; s++ {
		require.Equal(t, max(0, 1005-int(s)), short.reached(s))
		require.Equal(t, 3, long.reached(s))
	}
	require.Equal(t, 0, long.reached(1012))
}

func TestWindowMemory(t *testing.T) {
	small, hour := makeWindow(1, 60, keptGauge), makeWindow(1, 3600, keptGauge)
	require.LessOrEqual(t, small.bytes(), 160)
	require.LessOrEqual(t, hour.bytes(), 600)
}

func BenchmarkPutAndHold(b *testing.B) {
	w := makeWindow(50, 60, keptGauge)
	second := int64(1000)
	for b.Loop() {
		second++
		w.put(second, float64(second%100))
		w.holds(second, 5)
	}
}
