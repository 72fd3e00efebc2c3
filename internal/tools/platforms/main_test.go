// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck has a module that compiles on one platform only: a package that it imports has a constant that 32 bits do not hold, and no file of Windows.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module example.com/m\n\ngo 1.25\n",
		"m.go":           "package m\n\nimport \"example.com/m/inner\"\n\nfunc F() (int, int) { return inner.Big, inner.Only }\n",
		"inner/i.go":     "package inner\n\nvar Big int = 1 << 40\n",
		"inner/linux.go": "//go:build linux\n\npackage inner\n\nconst Only = 1\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for platform, want := range map[string]string{
		"linux/amd64":   "",
		"linux/386":     "inner/i.go:3:15: cannot use 1 << 40",
		"windows/amd64": "m.go:5:47: undefined: inner.Only",
		"linux":         `"linux" is not GOOS/GOARCH`,
	} {
		err := check(dir, []string{platform}, []string{"./..."})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", platform, err, want)
		}
	}
}
