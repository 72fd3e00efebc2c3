// SPDX-License-Identifier: Apache-2.0

// Package toolchain runs compilers and other tools on behalf of tests.
package toolchain

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"
)

// Need skips a test in the guests of the kernel matrix, which have no compilers: what it tests does not depend on the kernel's version
// and is tested on the host. Anywhere else a missing tool fails the test.
func Need(t testing.TB, name string) {
	t.Helper()
	if !guest.Running() {
		return
	}
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("the guest has no %s to make the test's program with", name)
	}
}

// Run executes a tool and returns its output.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	Need(t, name)
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoErrorf(t, err, "%s %v: %s", name, args, out)
	return string(out)
}

// Go is the path of the go command, a large Go binary with symbols.
func Go(t testing.TB) string {
	t.Helper()
	return filepath.Join(strings.TrimSpace(Run(t, "go", "env", "GOROOT")), "bin", "go")
}

// CompileC writes source to a file and compiles it.
func CompileC(t testing.TB, source, name string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	src := filepath.Join(dir, "main.c")
	compiler := "gcc"
	if strings.HasSuffix(name, "++") {
		src, compiler = filepath.Join(dir, "main.cc"), "g++"
	}
	require.NoError(t, os.WriteFile(src, []byte(source), 0o600))
	bin := filepath.Join(dir, strings.TrimSuffix(name, "++"))
	Run(t, compiler, append([]string{"-O1", "-o", bin, src}, flags...)...)
	return bin
}

// CompileGo builds a program from one file.
func CompileGo(t testing.TB, source string, flags ...string) string {
	t.Helper()
	Need(t, "go")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.org/target\n\ngo 1.25.0\n"), 0o600))
	bin := filepath.Join(dir, "target")
	cmd := exec.Command("go", append(append([]string{"build", "-o", bin}, flags...), ".")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoErrorf(t, err, "go build: %s", out)
	return bin
}
