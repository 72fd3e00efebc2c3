// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/aptkernel"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"
)

// guestRoot is where the packages' folders are in the guest, as in the module, so that relative paths hold.
const guestRoot = "/src"

// testTimeout is that of one test binary: with it one that hangs leaves the others time, within that of the boot. With tests that take
// long it is longTestTimeout, since the tests of the network alone take more than ten minutes then.
const (
	testTimeout     = 10 * time.Minute
	longTestTimeout = 2 * testTimeout
)

// commandLinks are names under which the guest's init stands in for commands.
var commandLinks = []string{"true", "false", "sleep"}

// buildInitramfs compiles init, the test binaries and their helpers and packs them, with the modules of all kernels.
func buildInitramfs(ctx context.Context, o options, images []aptkernel.Image, target string) error {
	work, err := os.MkdirTemp(o.dir, "build-")
	if err != nil {
		return fmt.Errorf("making a directory to build in: %w", err)
	}
	defer os.RemoveAll(work)
	f, err := os.Create(target)
	if err != nil {
		return fmt.Errorf("making the initramfs: %w", err)
	}
	defer f.Close()
	a := newArchive(f)
	if err := pack(ctx, o, a, work); err != nil {
		return fmt.Errorf("making the initramfs: %w", err)
	}
	for _, img := range images {
		if err := a.tree(guest.ModulesPath, img.Modules); err != nil {
			return fmt.Errorf("making the initramfs: %w", err)
		}
	}
	if err := a.close(); err != nil {
		return err
	}
	return f.Close()
}

func pack(ctx context.Context, o options, a *archive, work string) error {
	initBinary := filepath.Join(work, "init")
	if err := goTool(ctx, o, "build", "-o", initBinary, "./internal/kerneltest/init"); err != nil {
		return err
	}
	if err := a.copy("/init", initBinary); err != nil {
		return err
	}
	for _, name := range commandLinks {
		if err := a.link("/bin/"+name, "/init"); err != nil {
			return err
		}
	}
	if err := packShell(o, a); err != nil {
		return err
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/tmp", "/run", guest.TestbinPath} {
		if err := a.dir(dir); err != nil {
			return err
		}
	}
	m := newManifest(o)
	for _, p := range m.Packages {
		if err := packPackage(ctx, o, a, work, p); err != nil {
			return err
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return a.file(guest.ManifestPath, 0o644, int64(len(text)), bytes.NewReader(text))
}

// shell is this machine's, with the libraries that it needs: tests start children by it.
const shell = "/bin/sh"

// packShell adds the shell. If this machine has another architecture, that is a static one; otherwise this machine's, with its program
// interpreter and its libraries, at the paths that the interpreter searches by itself.
func packShell(o options, a *archive) error {
	if o.shell != "" {
		return a.copy(shell, o.shell)
	}
	f, err := elf.Open(shell)
	if err != nil {
		return fmt.Errorf("reading %s: %w", shell, err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("reading the libraries of %s: %w", shell, err)
	}
	for _, name := range append(libraries, "ld-linux-x86-64.so.2") {
		if err := a.copy("/lib64/"+name, filepath.Join("/lib/x86_64-linux-gnu", name)); err != nil {
			return err
		}
	}
	return a.copy(shell, shell)
}

func newManifest(o options) guest.Manifest {
	timeout := time.Duration(testTimeout)
	if o.long {
		timeout = longTestTimeout
	}
	m := guest.Manifest{
		Args:    []string{"-test.v", "-test.count=" + strconv.Itoa(o.count), "-test.timeout=" + timeout.String()},
		Env:     []string{guest.Env + "=1", testbin.Env + "=" + guest.TestbinPath, "PATH=/bin", "LD_LIBRARY_PATH=/lib64", "HOME=/tmp", "TMPDIR=/tmp"},
		Timeout: timeout,
	}
	if o.run == "" { // emulated CPUs measure nothing; a test that is named runs
		m.Args = append(m.Args, "-test.skip=^TestMeasure")
	}
	for _, p := range o.packages {
		name := path.Clean(filepath.ToSlash(p))
		dir := path.Join(guestRoot, name)
		run := o.run
		if o.quick {
			run = quickTests[name]
		}
		m.Packages = append(m.Packages, guest.Package{Name: name, Dir: dir, Binary: path.Join(dir, path.Base(name)+".test"), Run: run})
	}
	return m
}

// packPackage adds a package's test binary, its testdata and the helpers that are in it.
func packPackage(ctx context.Context, o options, a *archive, work string, p guest.Package) error {
	say("building the tests of %s", p.Name)
	binary := filepath.Join(work, strings.ReplaceAll(p.Name, "/", "_")+".test")
	extra := extras[p.Name]
	if err := goTool(ctx, o, "test", "-c", "-tags", extra.tags, "-o", binary, "./"+p.Name); err != nil {
		return err
	}
	if err := a.copy(p.Binary, binary); err != nil {
		return err
	}
	for _, file := range extra.files {
		if err := a.copy(path.Join(guestRoot, file), file); err != nil {
			return err
		}
	}
	if err := a.tree(path.Join(p.Dir, "testdata"), filepath.Join(p.Name, "testdata")); err != nil {
		return err
	}
	sources, err := filepath.Glob(filepath.Join(p.Name, "testdata", "*.c"))
	if err != nil {
		return fmt.Errorf("looking for helper programs of %s: %w", p.Name, err)
	}
	for _, source := range sources {
		compile := func(target string) error {
			return testbin.CompileBy(machines[o.arch].compiler, source, target, "-static")
		}
		if err := packHelper(a, work, strings.TrimSuffix(filepath.Base(source), ".c"), compile); err != nil {
			return err
		}
	}
	programs, err := filepath.Glob(filepath.Join(p.Name, "testdata", "*", "main.go"))
	if err != nil {
		return fmt.Errorf("looking for Go programs of %s: %w", p.Name, err)
	}
	for _, source := range programs {
		folder := filepath.Dir(source)
		if err := packHelper(a, work, filepath.Base(folder), func(target string) error { return testbin.CompileGo(folder, target, o.arch) }); err != nil {
			return err
		}
	}
	return nil
}

// packHelper compiles a program that tests start, and adds it.
func packHelper(a *archive, work, name string, compile func(target string) error) error {
	helper := filepath.Join(work, "testbin-"+name)
	if err := compile(helper); err != nil {
		return err
	}
	return a.copy(path.Join(guest.TestbinPath, name), helper)
}

// goTool runs the go command for the guest's platform.
func goTool(ctx context.Context, o options, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+o.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
