// SPDX-License-Identifier: Apache-2.0

// Package internal_test checks the import rules of docs/internals/architecture.md.
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

// imports lists the packages that a package may import, in addition to its own. Imports run one way:
// receiver → engine → observe → {kernel, process, conntrack, unwind, symbol, l7, tls} → {model, elfimage}; pdata and control hang off engine and
// receiver. Rooms of one layer do not import each other but for what is listed here. A new room gets a row.
var imports = map[string][]string{
	"receiver":   {"cgroup", "engine", "monitor", "l7", "control", "skywalking", "pdata", "observe", "process", "setting", "policy", "task", "garbage", "warn", "model"},
	"control":    {"engine", "observe", "policy", "task", "process", "pdata", "kernel", "model"},
	"skywalking": {"engine", "observe", "policy", "task", "process", "pdata", "model"},
	"pdata":      {"model"},
	"engine":     {"observe", "policy", "monitor", "task", "kernel", "process", "unwind", "symbol", "l7", "tls", "warn", "model"},
	"policy":     {"monitor", "process", "model"},
	"monitor":    {"proc", "model"},
	"task":       {"process", "warn", "model"},
	"observe":    {"bpf", "kernel", "proc", "process", "setting", "conntrack", "unwind", "symbol", "l7", "tls", "elfimage", "garbage", "warn", "model"},
	"process":    {"bpf", "kernel", "proc", "warn", "model"}, // its life is followed by a BPF program, which kernel loads
	"setting":    {"process"},
	"conntrack":  {"kernel", "proc", "thread"},
	"unwind":     {"bpf", "kernel", "symbol", "debuginfo", "elfimage", "model"},
	"tls":        {"symbol", "elfimage"},
	"kernel":     {"bpf", "model"},
	"symbol":     {"debuginfo", "elfimage", "proc", "warn", "model"},
	"debuginfo":  {"elfimage"},
	"l7":         {"model"},
	"bpf":        {},
	"cgroup":     {},
	"elfimage":   {},
	"garbage":    {},
	"proc":       {},
	"thread":     {},
	"warn":       {},
	"model":      {},

	// Not part of the receiver: programs and what is only tested or built with.
	"cmd":          {"flamegraph", "follow", "overview", "profilefile", "terminal", "model", "pdata"},
	"follow":       {},
	"overview":     {}, // reads OTLP
	"profilefile":  {"model", "pdata"},
	"terminal":     {},
	"flamegraph":   {"model", "pdata"},
	"accuracy":     nil,
	"bench":        nil,
	"hostile":      {"bench", "freeport", "pdata"},
	"demo":         {"pdata"}, // what it shows is read from what the Collector writes
	"distribution": {"receiver", "cgroup"},
	"kerneltest":   {},
	"nettest":      {"proctest", "thread"},
	"proctest":     {},
	"freeport":     {},
	"sigready":     {},
	"testrun":      {"kerneltest"},
}

// knowsCollector are the rooms that may import the Collector's packages.
var knowsCollector = []string{"receiver", "control", "pdata", "distribution", "cmd", "overview", "bench"}

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

// kindsKnownTo are the packages of internal/observe that a room may import. The list of kinds is for all others: the engine knows network alone,
// whose observation reads the requests that policies use.
var kindsKnownTo = map[string][]string{
	"receiver": {"observe", "observe/kinds"},
	"engine":   {"observe", "observe/kinds", "observe/network"},
	"task":     {},
	"policy":   {},
}

// TestKindsAreKnownByTheirList checks that a kind of observation is imported by the list of kinds alone.
func TestKindsAreKnownByTheirList(t *testing.T) {
	for _, f := range goFiles(t) {
		known, bound := kindsKnownTo[f.room]
		if !bound {
			continue
		}
		for _, imported := range f.imports {
			name, ours := strings.CutPrefix(imported, module+"/internal/")
			if ours && roomOf("internal/"+name) == "observe" && !slices.Contains(known, name) {
				t.Errorf("%s imports %s: the kinds are in the list of internal/observe/kinds", f.path, imported)
			}
		}
	}
}

// partsOfSymbol are the packages below internal/symbol, each with those of internal that it may import. symbol itself puts them together and may
// import all of them; none of them knows the symbolizer, its lock or its processes. A new package gets a row.
var partsOfSymbol = map[string][]string{
	"disasm":             {},
	"budget":             {},
	"patience":           {"symbol/reason"},
	"reason":             {},
	"elfsym":             {"symbol/reason", "elfimage", "model"},
	"codemap":            {"symbol/elfsym", "symbol/reason", "proc", "model"},
	"codemap/dumptest":   {},
	"kernelsym":          {"symbol/elfsym", "symbol/reason", "proc", "model"},
	"kernelsym/ksymtest": {"proc"},
}

// partsOfSymbolForOthers are those that other rooms may import.
var partsOfSymbolForOthers = []string{"disasm", "reason"}

// TestPartsOfSymbol checks the imports of and from the packages below internal/symbol.
func TestPartsOfSymbol(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range goFiles(t) {
		part := ""
		if folder := path.Dir(f.path); f.room == "symbol" && folder != "internal/symbol" {
			part = strings.TrimPrefix(folder, "internal/symbol/")
			seen[part] = true
		}
		for _, imported := range f.imports {
			if msg := symbolViolation(f.room, part, imported); msg != "" {
				t.Errorf("%s: %s", f.path, msg)
			}
		}
	}
	for part := range seen {
		require.Contains(t, partsOfSymbol, part, "the package has no row")
	}
	require.Len(t, seen, len(partsOfSymbol), "packages of the table that are not there")
}

// symbolViolation returns what is wrong with an import of a file in a room; part is the file's package below internal/symbol, if any.
func symbolViolation(room, part, imported string) string {
	name, ours := strings.CutPrefix(imported, module+"/internal/")
	if !ours {
		return ""
	}
	below, isPart := strings.CutPrefix(name, "symbol/")
	switch {
	case part != "" && !slices.Contains(partsOfSymbol[part], name):
		return fmt.Sprintf("symbol/%s imports %s", part, name)
	case part == "" && room == "symbol" && isPart && strings.HasSuffix(below, "test"):
		return fmt.Sprintf("symbol imports %s, which is for tests", name)
	case room != "symbol" && isPart && !slices.Contains(partsOfSymbolForOthers, below):
		return fmt.Sprintf("the room %s imports %s, which is for symbol alone", room, name)
	}
	return ""
}

func TestSymbolRulesSeeViolations(t *testing.T) {
	for _, c := range []struct {
		room, part, imported string
		bad                  bool
	}{
		{"symbol", "", module + "/internal/symbol/elfsym", false},
		{"symbol", "", module + "/internal/debuginfo", false},
		{"symbol", "", module + "/internal/symbol/kernelsym/ksymtest", true},
		{"symbol", "kernelsym", module + "/internal/symbol/reason", false},
		{"symbol", "kernelsym", module + "/internal/symbol", true},
		{"symbol", "elfsym", module + "/internal/symbol/codemap", true},
		{"symbol", "disasm", "debug/elf", false},
		{"tls", "", module + "/internal/symbol/disasm", false},
		{"engine", "", module + "/internal/symbol", false},
		{"engine", "", module + "/internal/symbol/budget", true},
	} {
		require.Equal(t, c.bad, symbolViolation(c.room, c.part, c.imported) != "", "%s/%s imports %s", c.room, c.part, c.imported)
	}
}

// violation returns what is wrong with an import, or an empty text. A nil list allows all rooms but the receiver.
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
	if rel != "." && (strings.ContainsAny(name[:1], "._") || slices.Contains([]string{"testdata", "bin", "out"}, name)) || rel == "internal/tools" || rel == "cmd" { // modules of their own
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
		{"policy", module + "/internal/monitor", false},
		{"monitor", module + "/internal/policy", true},
		{"l7", module + "/internal/kernel", true},
		{"observe", module + "/internal/l7", false},
	} {
		got := violation(c.room, imports[c.room], c.imported)
		require.Equal(t, c.bad, got != "", "%s imports %s: %s", c.room, c.imported, got)
	}
}
