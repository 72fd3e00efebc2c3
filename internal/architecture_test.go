// SPDX-License-Identifier: Apache-2.0

// Package internal_test holds the rules of docs/architecture.md about who imports whom.
package internal_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module    = "github.com/otelcol-ebpf/ebpfreceiver"
	collector = "go.opentelemetry.io/collector/"
)

// imports says which rooms a room may import, beside itself. Imports run one way:
// receiver → engine → observe → {kernel, process, conntrack, unwind, symbol, l7, tls} → {model, elfimage}; pdata and control hang off engine and
// receiver. Rooms of one layer do not import each other but for what is listed here. A new room gets a row.
var imports = map[string][]string{
	"receiver":   {"engine", "control", "skywalking", "pdata", "observe", "process", "policy", "task", "kernel", "model"},
	"control":    {"engine", "observe", "policy", "task", "process", "pdata", "kernel", "model"},
	"skywalking": {"engine", "observe", "policy", "task", "process", "pdata", "model"},
	"pdata":      {"model"},
	"engine":     {"observe", "policy", "task", "kernel", "process", "unwind", "symbol", "l7", "tls", "warn", "model"},
	"policy":     {"process", "model"},
	"task":       {"process", "warn", "model"},
	"observe":    {"bpf", "kernel", "process", "conntrack", "unwind", "symbol", "l7", "tls", "elfimage", "warn", "model"},
	"process":    {"bpf", "kernel", "proc", "warn", "model"}, // its life is followed by a BPF program, which kernel loads
	"conntrack":  {"kernel", "proc"},
	"unwind":     {"bpf", "kernel", "symbol", "debuginfo", "elfimage", "model"},
	"tls":        {"symbol", "elfimage"},
	"kernel":     {"bpf", "model"},
	"symbol":     {"debuginfo", "elfimage", "proc", "warn", "model"},
	"debuginfo":  {"elfimage"},
	"l7":         {"model"},
	"bpf":        {},
	"elfimage":   {},
	"proc":       {},
	"warn":       {},
	"model":      {},

	// Not part of the receiver: programs and what is only tested or built with.
	"cmd":          {"flamegraph", "model", "pdata"},
	"flamegraph":   {"model", "pdata"},
	"accuracy":     nil,
	"bench":        nil,
	"demo":         {"pdata"}, // what it shows is read from what the Collector writes
	"distribution": {"receiver"},
	"kerneltest":   {},
	"nettest":      {},
}

// knowsCollector are the rooms that may import the Collector's packages.
var knowsCollector = []string{"receiver", "control", "pdata", "distribution", "cmd", "bench"}

// file is what the rules look at in a Go file.
type file struct {
	path    string // from the module's root
	room    string
	imports []string
}

func TestImportsRunOneWay(t *testing.T) {
	for _, f := range goFiles(t) {
		allowed, known := imports[f.room]
		if !known {
			t.Errorf("%s: the room %s has no row in the table of imports", f.path, f.room)
			continue
		}
		for _, imported := range f.imports {
			if msg := violation(f.room, allowed, imported); msg != "" {
				t.Errorf("%s: %s", f.path, msg)
			}
		}
	}
}

// violation tells what is wrong with an import, or nothing. A nil list allows all rooms but the receiver.
func violation(room string, allowed []string, imported string) string {
	if strings.HasPrefix(imported, collector) && !slices.Contains(knowsCollector, room) {
		return fmt.Sprintf("imports %s: only %s know the Collector", imported, strings.Join(knowsCollector, ", "))
	}
	rest, ours := strings.CutPrefix(imported, module+"/")
	if !ours {
		return ""
	}
	target := roomOf(rest)
	if target == room || slices.Contains(allowed, target) || allowed == nil && target != "receiver" {
		return ""
	}
	return fmt.Sprintf("the room %s imports %s", room, target)
}

// roomOf returns the room of a folder or file given from the module's root: internal/observe/oncpu is in observe.
func roomOf(path string) string {
	first, rest, _ := strings.Cut(path, "/")
	if first != "internal" {
		return first
	}
	room, _, _ := strings.Cut(rest, "/")
	return room
}

// goFiles returns the module's Go files for all platforms, tests and nested modules left out.
func goFiles(t *testing.T) []file {
	t.Helper()
	root := ".."
	var files []file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			return skipDir(rel)
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") || !strings.Contains(rel, "/") {
			return nil
		}
		f, err := readFile(p, rel)
		files = append(files, f)
		return err
	})
	require.NoError(t, err)
	require.Greater(t, len(files), 10, "the module's files were not found")
	return files
}

func skipDir(rel string) error {
	name := path.Base(rel)
	if rel != "." && (strings.ContainsAny(name[:1], "._") || slices.Contains([]string{"testdata", "bin", "out"}, name)) || rel == "internal/tools" {
		return fs.SkipDir
	}
	return nil
}

func readFile(p, rel string) (file, error) {
	f := file{path: rel, room: roomOf(rel)}
	parsed, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
	if err != nil {
		return f, fmt.Errorf("reading the imports of %s: %w", rel, err)
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return f, fmt.Errorf("reading the imports of %s: %w", rel, err)
		}
		f.imports = append(f.imports, imported)
	}
	return f, nil
}

// TestRulesSeeViolations holds that the rules would notice what they forbid.
func TestRulesSeeViolations(t *testing.T) {
	for _, c := range []struct {
		room, imported string
		bad            bool
	}{
		{"receiver", module + "/internal/engine", false},
		{"engine", module + "/internal/observe/oncpu", false},
		{"observe", module + "/bpf/bindings", false},
		{"engine", module + "/receiver", true},
		{"bench", module + "/receiver", true},
		{"bench", module + "/internal/model", false},
		{"model", module + "/internal/process", true},
		{"symbol", module + "/internal/process", true},
		{"observe", module + "/internal/engine", true},
		{"engine", module + "/internal/pdata", true},
		{"engine", collector + "component", true},
		{"pdata", collector + "pdata/pprofile", false},
		{"symbol", "debug/elf", false},
		{"l7", module + "/internal/kernel", true},
		{"observe", module + "/internal/l7", false},
	} {
		got := violation(c.room, imports[c.room], c.imported)
		require.Equal(t, c.bad, got != "", "%s imports %s: %s", c.room, c.imported, got)
	}
}
