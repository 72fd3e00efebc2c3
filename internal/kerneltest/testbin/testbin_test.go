// SPDX-License-Identifier: Apache-2.0

package testbin

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFileFlags(t *testing.T) {
	require.Equal(t, []string{"-O2", "-static"}, fileFlags("// SPDX\n// cflags: -O2  -static\nint main;"))
	require.Equal(t, []string{"-O1", "-g", "-fno-omit-frame-pointer"}, fileFlags("int main;"))
	require.Equal(t, []string{"-O1", "-g", "-fno-omit-frame-pointer"}, fileFlags("\n\n\n\n\n\n\n\n\n\n// cflags: -O3"))
}

func TestC(t *testing.T) {
	source := filepath.Join(t.TempDir(), "seven.c")
	require.NoError(t, os.WriteFile(source, []byte("// cflags: -DSEVEN=7\nint main(void) { return SEVEN; }\n"), 0o644))
	t.Setenv(Env, "")
	err := exec.Command(C(t, source)).Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode())
}

func TestPrebuilt(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Env, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "busy"), nil, 0o755))
	require.Equal(t, filepath.Join(dir, "busy"), C(t, "testdata/busy.c"))
}

func TestCompileErrors(t *testing.T) {
	require.ErrorIs(t, Compile(filepath.Join(t.TempDir(), "absent.c"), "x"), os.ErrNotExist)
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no C compiler")
	}
	bad := filepath.Join(t.TempDir(), "bad.c")
	require.NoError(t, os.WriteFile(bad, []byte("int main("), 0o644))
	require.ErrorContains(t, Compile(bad, filepath.Join(t.TempDir(), "bad")), "compiling "+bad)
}

func TestGo(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte("package main\n\nimport \"os\"\n\nfunc main() { os.Exit(7) }\n"), 0o644))
	t.Setenv(Env, "")
	err := exec.Command(Go(t, folder)).Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode())
	require.ErrorContains(t, CompileGo(t.TempDir(), filepath.Join(t.TempDir(), "x"), runtime.GOARCH), "main.go")
}
