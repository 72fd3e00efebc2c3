// SPDX-License-Identifier: Apache-2.0

// Package testbin gives tests their helper programs: compiled on the spot where there is a compiler, prebuilt in the
// virtual machines of the kernel matrix, where there is none.
//
// A helper is one C file below the testdata of a package that the matrix tests. Its flags are in its first lines, in a
// comment of its own:
//
//	// cflags: -O2 -fno-omit-frame-pointer
//
// The matrix builds each of them statically under the file's name without .c, so names must be unique among packages. A Go program of a
// folder below testdata is built stripped, under the folder's name.
package testbin // import "github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Env names the environment variable with the folder of prebuilt programs; it is set in the guest only.
const Env = "EBPFRECEIVER_TESTBIN"

// C returns the path of a helper program, built from a C file such as "testdata/seventy.c" unless it is prebuilt. More
// flags are added to those of the file and are not known to prebuilt programs. Without a C compiler the test is skipped.
func C(t testing.TB, source string, flags ...string) string {
	t.Helper()
	return program(t, strings.TrimSuffix(filepath.Base(source), ".c"), func(path string) error { return Compile(source, path, flags...) })
}

// Go returns the path of a program of a folder such as "testdata/gogrow", static and stripped, built from its main.go unless it is
// prebuilt. Without a Go compiler the test is skipped.
func Go(t testing.TB, folder string) string {
	t.Helper()
	return program(t, filepath.Base(folder), func(path string) error { return CompileGo(folder, path, runtime.GOARCH) })
}

// program finds a prebuilt program by its name, or has it built.
func program(t testing.TB, name string, build func(path string) error) string {
	t.Helper()
	if dir := os.Getenv(Env); dir != "" {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("finding the prebuilt program: %v", err)
		}
		return path
	}
	path := filepath.Join(t.TempDir(), name)
	err := build(path)
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("no compiler: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// CompileGo builds the Go program of a folder for an architecture, static and stripped.
func CompileGo(folder, target, arch string) error {
	source := filepath.Join(folder, "main.go")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", target, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w: %s", source, err, out)
	}
	return nil
}

// Compile builds a C file with gcc, with the flags that the file asks for and more.
func Compile(source, target string, flags ...string) error {
	return CompileBy("", source, target, flags...)
}

// CompileBy does the same with another compiler, or gcc where that is empty.
func CompileBy(compiler, source, target string, flags ...string) error {
	text, err := os.ReadFile(source)
	if err != nil {
		return fmt.Errorf("compiling: %w", err)
	}
	args := append(fileFlags(string(text)), flags...)
	args = append(args, "-o", target, source, "-lpthread")
	cmd := exec.Command(cmp.Or(compiler, "gcc"), args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w: %s", source, err, out)
	}
	return nil
}

// fileFlags returns the flags that a C file's first ten lines ask for.
func fileFlags(text string) []string {
	for i, line := range strings.SplitN(text, "\n", 11) {
		if rest, ok := strings.CutPrefix(line, "// cflags:"); ok && i < 10 {
			return strings.Fields(rest)
		}
	}
	return []string{"-O1", "-g", "-fno-omit-frame-pointer"}
}
