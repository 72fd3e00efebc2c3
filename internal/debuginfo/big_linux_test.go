// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bigUnit is one translation unit of the big program: templates of the standard library, which make most of the debug information of real
// C++ programs.
const bigUnit = `
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>
namespace big%[1]d {
template <int N> struct Item { int key = N; std::string text; std::shared_ptr<Item<N>> next; bool operator<(const Item &o) const { return key < o.key; } };
template <int N> int work(int n) {
	std::vector<Item<N>> items; std::map<std::string, Item<N>> named; std::unordered_map<int, std::set<int>> sets;
	for (int i = 0; i < n; i++) { Item<N> it; it.key = i * %[1]d; it.text = std::to_string(i); items.push_back(it); named[it.text] = it; sets[i %% 7].insert(i); }
	std::sort(items.begin(), items.end()); std::stable_sort(items.begin(), items.end());
	std::ostringstream out; for (auto &i : items) out << i.text << ' ';
	std::function<int(int)> f = [&](int x) { return x + (int)named.size() + (int)sets.size(); };
	return f((int)out.str().size()) + work<N - 1>(n - 1);
}
template <> int work<0>(int n) { return n; }
}
int entry%[1]d(const char *s) {
	std::regex r("a(b|c)*d"); std::smatch m; std::string t(s);
	return std::regex_search(t, m, r) + big%[1]d::work<24>((int)t.size());
}
`

// bigBinary makes a shared library of at least the given size, of copies of some units whose names differ.
func bigBinary(t testing.TB, size int64) string {
	t.Helper()
	dir := t.TempDir()
	var objects []string
	var total int64
	for n := 0; n < 3; n++ {
		source := filepath.Join(dir, fmt.Sprintf("unit%d.cc", n))
		require.NoError(t, os.WriteFile(source, fmt.Appendf(nil, bigUnit, n), 0o600))
		object := strings.TrimSuffix(source, ".cc") + ".o"
		run(t, dir, "g++", "-O2", "-g", "-fPIC", "-c", "-o", object, source)
		objects = append(objects, object)
	}
	for n := 0; total < size*18/10; n++ { // the linker joins strings
		from := objects[n%3]
		if n >= 3 {
			to := filepath.Join(dir, fmt.Sprintf("copy%d.o", n))
			run(t, dir, "objcopy", "--prefix-symbols=p"+strconv.Itoa(n)+"_", from, to)
			objects = append(objects, to)
		}
		info, err := os.Stat(from)
		require.NoError(t, err)
		total += info.Size() * 2 / 3 // without relocations
	}
	out := filepath.Join(dir, "big.so")
	run(t, dir, "g++", append([]string{"-shared", "-nostdlib", "-Wl,-z,nodefs", "-o", out}, objects...)...)
	return out
}

// peakRSS is VmHWM of this process, in bytes.
func peakRSS(t testing.TB) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			require.NoError(t, err)
			return kb << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

const bigChild = "EBPFRECEIVER_BIG_BINARY"

// TestHelperBigBinary looks 2000 addresses up in the binary that the benchmark names and prints what that took, in a process of its own.
func TestHelperBigBinary(t *testing.T) {
	file := os.Getenv(bigChild)
	if file == "" {
		t.Skip("the benchmark BigBinary runs this in a process of its own")
	}
	before := peakRSS(t)
	r := rand.New(rand.NewPCG(1, 2))
	f, err := elf.Open(file)
	require.NoError(t, err)
	text := f.Section(".text")
	require.NoError(t, f.Close())
	addrs := make([]uint64, 2000)
	for i := range addrs {
		addrs[i] = text.Addr + r.Uint64N(text.Size)
	}
	img := imageOf(t, file)
	begin := time.Now()
	d, err := Open(img, Options{})
	require.NoError(t, err)
	opened := time.Since(begin)
	lines, found := []Line(nil), 0
	for _, a := range addrs {
		lines, err = d.Lookup(a, lines[:0])
		require.NoError(t, err)
		if len(lines) > 0 {
			found++
		}
	}
	took := time.Since(begin)
	fmt.Printf("BIG open_ms %d all_ms %d found %d units %d built %d held %d before %d peak %d\n", opened.Milliseconds(), took.Milliseconds(), found,
		len(d.main.starts), d.Built(), d.Bytes(), before, peakRSS(t))
	require.NoError(t, d.Close())
}

// BenchmarkBigBinary checks what is promised of a C++ binary of 100 MB that is not cached: 2000 random addresses of it have their lines in
// less than 2 s, and the process that reads it has at most 120 MB in memory.
func BenchmarkBigBinary(b *testing.B) {
	if testing.Short() {
		b.Skip("builds a binary of 100 MB")
	}
	file := bigBinary(b, 100<<20)
	info, err := os.Stat(file)
	require.NoError(b, err)
	b.ResetTimer()
	for b.Loop() {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHelperBigBinary$", "-test.v")
		cmd.Env = append(os.Environ(), bigChild+"="+file)
		out, err := cmd.CombinedOutput()
		require.NoErrorf(b, err, "%s", out)
		_, line, found := strings.Cut(string(out), "BIG ")
		require.Truef(b, found, "%s", out)
		line, _, _ = strings.Cut(line, "\n")
		b.Log(info.Size()>>20, "MiB:", line)
		var opened, took, looked, units, built, held, before, peak int64
		_, err = fmt.Sscanf(line, "open_ms %d all_ms %d found %d units %d built %d held %d before %d peak %d",
			&opened, &took, &looked, &units, &built, &held, &before, &peak)
		require.NoError(b, err)
		require.Greater(b, looked, int64(1000))
		b.ReportMetric(float64(took), "cold-ms")
		b.ReportMetric(float64(peak), "peak-bytes")
		if took >= 2000 {
			b.Errorf("%d ms for 2000 addresses; less than 2 s is promised", took)
		}
		if peak > 120<<20 {
			b.Errorf("%d bytes in memory; at most 120 MB is promised", peak)
		}
	}
}
