// SPDX-License-Identifier: Apache-2.0

// Command kerneltest runs the privileged tests on the kernels that the receiver supports: it fetches Debian's kernels,
// builds the test binaries into an initial RAM disk, boots each kernel with it in QEMU, and reports what passed, failed
// and was skipped, with the reasons. QEMU emulates in software, so it runs wherever the emulator is installed.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/aptkernel"
)

// testedPackages are the folders whose tests need a kernel. This is the one list of them.
var testedPackages = []string{
	"bpf/bindings",
	"internal/kernel",
	"internal/conntrack",
	"internal/nettest",
	"internal/process",
	"internal/process/lifecycle",
	"internal/process/usage",
	"internal/symbol",
	"internal/observe/offcpu",
	"internal/observe/memory",
	"internal/observe/oncpu",
	"internal/observe/network",
	"internal/engine",
	"receiver",
	"internal/distribution/e2e",
}

// quickTests are what -quick runs of a package, a regular expression as of go test -run; packages that are not named are left out. They
// show in minutes whether a kernel takes every program, and whether each kind of observation sees what it should there.
var quickTests = map[string]string{
	"bpf/bindings":               "^Test",
	"internal/kernel":            "^Test",
	"internal/process/lifecycle": "^Test",
	"internal/process/usage":     "^Test",
	"internal/observe/offcpu":    "^(TestWaits|TestRefusedHook)$",
	"internal/observe/memory":    "^(TestLevels|TestManyLooks)$",
	"internal/observe/oncpu":     "^(TestNothingIsLost|TestMaxDepth)$",
	"internal/observe/network": "^(TestBytesOfConnections|TestDatagrams|TestHandshake|TestFailedConnects|TestRetransmitsAndRTT|TestDrops|TestTranslatedPeers|" +
		"TestRequests|TestSocketsWithoutAFile)$",
	"internal/engine":           "^(TestOffCPUTime|TestBlockReasons|TestShutdown|TestPoliciesOfProcesses|TestPoliciesOfNewProcesses)$",
	"internal/distribution/e2e": "^Test",
}

// extras are what some of these packages need in addition to their testdata.
var extras = map[string]struct {
	tags  string   // build tags of the test binary
	files []string // programs that make has built and other files; in the guest they are where they are here in the module
}{
	"internal/symbol":           {"", []string{"internal/debuginfo/testdata/bin/gcc-dwarf4", "internal/debuginfo/testdata/bin/clang-dwarf5"}},
	"receiver":                  {"", []string{"receiver/metadata.yaml"}}, // read by mdatagen's test of the life cycle
	"internal/distribution/e2e": {"e2e", []string{"bin/otelcol-ebpf-quick", "bin/demo-load", "testdata/run.yaml"}},
}

// options are what the command line says.
type options struct {
	packages []string
	kernels  []aptkernel.Kernel
	arch     string        // of the guests, one of machines
	shell    string        // a program of that architecture that needs nothing else, where it is not this machine's
	dir      string        // where kernels, test binaries and consoles are kept; absolute
	run      string        // -test.run of the test binaries
	count    int           // how often each test runs
	jobs     int           // kernels at a time
	timeout  time.Duration // of one boot
	quick    bool          // only quickTests
	long     bool          // also tests that take long
	prepare  bool          // boot nothing
	verbose  bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parseOptions(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "kerneltest: %v\n", err)
		os.Exit(2)
	}
	if err := matrix(ctx, o); err != nil {
		fmt.Fprintf(os.Stderr, "kerneltest: %v\n", err)
		os.Exit(1)
	}
}

func parseOptions(args []string) (options, error) {
	fs := flag.NewFlagSet("kerneltest", flag.ContinueOnError)
	packages := fs.String("packages", "", "folders to test, parted by commas; empty: all that need a kernel")
	kernels := fs.String("kernels", "", "kernels to boot, such as 5.10,6.1; empty: all")
	arch := fs.String("arch", "amd64", "architecture of the machines: amd64 or arm64")
	dir := fs.String("dir", "", "where kernels and consoles are kept; empty: _build/kernels, of another architecture than this machine's _build/kernels-ARCH")
	run := fs.String("run", "", "tests to run, as for go test -run")
	count := fs.Int("count", 1, "how often each test runs, as for go test -count")
	jobs := fs.Int("jobs", 2, "kernels at a time")
	timeout := fs.Duration("timeout", 25*time.Minute, "of one boot; five minutes are usual where two boot at a time on two CPUs, 20 with -long")
	quick := fs.Bool("quick", false, "run only the tests that show in minutes whether a kernel takes the programs")
	long := fs.Bool("long", false, "run tests that take long, too")
	prepare := fs.Bool("prepare", false, "only fetch the kernels and build the tests, so that a later run boots soon")
	verbose := fs.Bool("v", false, "name every test")
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	o := options{packages: existing(testedPackages), kernels: aptkernel.Kernels, arch: *arch, run: *run, count: *count, jobs: *jobs, timeout: *timeout, quick: *quick, long: *long, prepare: *prepare, verbose: *verbose}
	if *packages != "" {
		o.packages = strings.Split(*packages, ",")
	}
	if o.quick {
		if o.run != "" || o.long {
			return options{}, errors.New("-quick together with -run or -long: it says itself which tests run")
		}
		o.packages = slices.DeleteFunc(o.packages, func(p string) bool { return quickTests[p] == "" })
	}
	if *kernels != "" {
		var err error
		if o.kernels, err = pick(strings.Split(*kernels, ",")); err != nil {
			return options{}, err
		}
	}
	if _, err := regexp.Compile(o.run); err != nil {
		return options{}, fmt.Errorf("-run: %w", err)
	}
	if o.jobs < 1 || o.count < 1 || o.timeout < time.Second {
		return options{}, fmt.Errorf("-jobs %d -count %d -timeout %s: at least one kernel, one run and one second", o.jobs, o.count, o.timeout)
	}
	if _, known := machines[o.arch]; !known {
		return options{}, fmt.Errorf("-arch %s: no such machine; there are amd64 and arm64", o.arch)
	}
	home := "_build/kernels"
	if o.arch != runtime.GOARCH {
		o.packages = slices.DeleteFunc(o.packages, func(p string) bool { return len(extras[p].files) > 0 }) // which were built for this machine
		home += "-" + o.arch
	}
	var err error
	o.dir, err = filepath.Abs(cmp.Or(*dir, home))
	return o, err
}

// existing keeps the folders that have tests.
func existing(packages []string) []string {
	return slices.DeleteFunc(slices.Clone(packages), func(p string) bool {
		tests, err := filepath.Glob(filepath.Join(p, "*_test.go"))
		return err != nil || len(tests) == 0
	})
}

// pick returns the kernels of these names.
func pick(names []string) ([]aptkernel.Kernel, error) {
	var picked []aptkernel.Kernel
	for _, name := range names {
		i := slices.IndexFunc(aptkernel.Kernels, func(k aptkernel.Kernel) bool { return k.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("-kernels %s: no such kernel; there are %s", name, kernelNames())
		}
		picked = append(picked, aptkernel.Kernels[i])
	}
	return picked, nil
}

func kernelNames() string {
	var names []string
	for _, k := range aptkernel.Kernels {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

func say(format string, args ...any) { fmt.Printf("kerneltest: "+format+"\n", args...) }

// matrix does everything and returns an error unless all tests passed on all kernels.
func matrix(ctx context.Context, o options) error {
	start := time.Now()
	if len(o.packages) == 0 {
		return errors.New("looking for tests: none of the folders has any")
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return fmt.Errorf("making the store of kernels: %w", err)
	}
	unlock, err := lock(o.dir)
	if err != nil {
		return err
	}
	defer unlock()
	images, err := fetch(ctx, o)
	if err != nil {
		return err
	}
	if o.arch != runtime.GOARCH {
		if o.shell, err = o.store().Program(ctx, "busybox-static", "bin/busybox", "usr/bin/busybox"); err != nil {
			return fmt.Errorf("fetching a shell: %w", err)
		}
	}
	initrd := filepath.Join(o.dir, "initramfs")
	if err := buildInitramfs(ctx, o, images, initrd); err != nil {
		return err
	}
	if o.prepare {
		say("prepared %d kernels in %s", len(images), time.Since(start).Round(time.Second))
		return nil
	}
	bad := bootAll(ctx, o, images, initrd)
	say("%d kernels, %d failed, in %s", len(images), len(bad), time.Since(start).Round(time.Second))
	if len(bad) > 0 {
		return fmt.Errorf("tests failed on kernel %s", strings.Join(bad, ", "))
	}
	return nil
}

// lock waits until no other run uses a store of kernels.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("locking the store of kernels: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", dir, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // which unlocks it
}

func (o options) store() *aptkernel.Store {
	return &aptkernel.Store{Dir: o.dir, Arch: o.arch, Log: say}
}

// fetch gets all kernels, one after the other: apt's private state takes one at a time.
func fetch(ctx context.Context, o options) ([]aptkernel.Image, error) {
	store := o.store()
	var images []aptkernel.Image
	for _, k := range o.kernels {
		img, err := store.Fetch(ctx, k.On(o.arch))
		if err != nil {
			return nil, err
		}
		images = append(images, img)
	}
	return images, nil
}

// bootAll boots the kernels, some at a time, prints each report as a whole, and returns the names of those that failed.
func bootAll(ctx context.Context, o options, images []aptkernel.Image, initrd string) []string {
	var (
		mu    sync.Mutex
		group sync.WaitGroup
		bad   []string
		slots = make(chan struct{}, o.jobs)
	)
	for _, img := range images {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			say("booting %s (%s)", img.Kernel.Name, img.Package)
			began := time.Now()
			res, err := boot(ctx, o, img, initrd)
			mu.Lock()
			defer mu.Unlock()
			if !report(os.Stdout, o, img, res, err, time.Since(began)) {
				bad = append(bad, img.Kernel.Name)
			}
		})
	}
	group.Wait()
	return bad
}
