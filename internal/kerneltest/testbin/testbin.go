// SPDX-License-Identifier: Apache-2.0

// Package testbin gives tests their helper programs: compiled on the spot where there is a compiler, prebuilt in the
// virtual machines of the kernel matrix, where there is none.
//
// A helper is one C file below the testdata of a package that the matrix tests. Its flags are in its first lines, in a
// comment of its own:
//
//	// cflags: -O2 -fno-omit-frame-pointer
//
// The matrix builds each of them statically under the file's name without .c, so names must be unique among packages.
package testbin // import "github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/testbin"

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Env names the environment variable with the folder of prebuilt programs; it is set in the guest only.
const Env = "EBPFRECEIVER_TESTBIN"

// C returns the path of a helper program, built from a C file such as "testdata/seventy.c" unless it is prebuilt. More
// flags are added to those of the file and are not known to prebuilt programs. Without a C compiler the test is skipped.
func C(t testing.TB, source string, flags ...string) string {
	t.Helper()
	name := strings.TrimSuffix(filepath.Base(source), ".c")
	if dir := os.Getenv(Env); dir != "" {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("finding the prebuilt program: %v", err)
		}
		return path
	}
	path := filepath.Join(t.TempDir(), name)
	err := Compile(source, path, flags...)
	if errors.Is(err, exec.ErrNotFound) {
		t.Skipf("no C compiler: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Compile builds a C file with gcc, with the flags that the file asks for and more.
func Compile(source, target string, flags ...string) error {
	text, err := os.ReadFile(source)
	if err != nil {
		return fmt.Errorf("compiling: %w", err)
	}
	args := append(fileFlags(string(text)), flags...)
	args = append(args, "-o", target, source, "-lpthread")
	cmd := exec.Command("gcc", args...)
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
