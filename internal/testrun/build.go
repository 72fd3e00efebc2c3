// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is what the paths of packages begin with; it is left out of what is printed.
const module = "github.com/otelcol-ebpf/ebpfreceiver/"

// pkg is a package with tests.
type pkg struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string

	race  bool
	rank  int // place in -split; those that are not named come after all of them
	parts int // processes that its tests run in
}

func (p *pkg) name() string { return strings.TrimPrefix(p.ImportPath, module) }

// list returns the packages that have tests, first those that -split names, in that order: they take longest.
func (o *options) list(ctx context.Context) ([]*pkg, error) {
	args := append([]string{"list", "-tags=" + o.tags, "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles"}, o.packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	var list []*pkg
	found := map[string]bool{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &pkg{rank: len(o.split), parts: 1}
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		for i, s := range o.split {
			if p.ImportPath == s.name || strings.HasSuffix(p.ImportPath, "/"+s.name) {
				p.rank, p.parts, found[s.name] = i, s.parts, true
			}
		}
		if p.race, err = o.underRace(p); err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	for _, s := range o.split {
		if !found[s.name] {
			return nil, fmt.Errorf("-split %s: no such package is among those that are tested", s.name)
		}
	}
	slices.SortStableFunc(list, func(a, b *pkg) int { return cmp.Compare(a.rank, b.rank) })
	return list, nil
}

// underRace reports whether a package runs under the race detector.
func (o *options) underRace(p *pkg) (bool, error) {
	if o.race != "auto" {
		return o.race == "on", nil
	}
	for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
		concurrent, err := isConcurrent(filepath.Join(p.Dir, name), nil)
		if concurrent || err != nil {
			return concurrent, err
		}
	}
	return false, nil
}

// isConcurrent reports whether a Go file starts a goroutine or imports what only goroutines need. The source may be given as in parser.ParseFile.
func isConcurrent(path string, source any) (found bool, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		return false, err
	}
	for _, imported := range file.Imports {
		found = found || slices.Contains([]string{`"sync"`, `"sync/atomic"`, `"golang.org/x/sync/errgroup"`}, imported.Path.Value)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		_, starts := n.(*ast.GoStmt)
		found = found || starts
		return !found
	})
	return found, nil
}

// batch is a number of packages that one command builds: with the same flags, and whose binaries have different names.
type batch struct {
	race, first bool // first: -split names its packages
	packages    []*pkg
}

// batches keeps the order in which packages come. Those whose rank is below first are in batches of their own, so that they run while the others compile.
func batches(list []*pkg, first int) (found []*batch) {
	for _, p := range list {
		early := p.rank < first
		i := slices.IndexFunc(found, func(b *batch) bool {
			return b.race == p.race && b.first == early && !slices.ContainsFunc(b.packages, func(other *pkg) bool { return filepath.Base(other.Dir) == filepath.Base(p.Dir) })
		})
		if i < 0 {
			i, found = len(found), append(found, &batch{race: p.race, first: early})
		}
		found[i].packages = append(found[i].packages, p)
	}
	return found
}

// build compiles the packages batch by batch and sends what is to be run.
func (o *options) build(ctx context.Context, dir string, list []*pkg, units chan<- *unit) error {
	for i, b := range batches(list, len(o.split)) {
		to := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
		args := append([]string{"test", "-c", "-vet=off", "-tags=" + o.tags, fmt.Sprintf("-race=%t", b.race), "-o", to + "/"}, strings.Fields(o.flags)...)
		for _, p := range b.packages {
			args = append(args, p.ImportPath)
		}
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if !b.race { // which needs C
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		}
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("compiling tests, see above: %w", err)
		}
		for _, p := range b.packages {
			parts, err := o.parts(ctx, p, filepath.Join(to, filepath.Base(p.Dir)+".test"))
			if err != nil {
				return err
			}
			for _, u := range parts {
				units <- u
			}
		}
	}
	return nil
}

// unit is one process: a package, or a part of its tests.
type unit struct {
	*pkg
	binary string
	part   int      // from 1
	tests  []string // their names
}

func (u *unit) title() string {
	if u.parts == 1 {
		return u.name()
	}
	return fmt.Sprintf("%s (%d/%d)", u.name(), u.part, u.parts)
}

// parts deals the tests of a package out to its processes.
func (o *options) parts(ctx context.Context, p *pkg, binary string) ([]*unit, error) {
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%s: its tests were compiled and are not there: %w", p.name(), err)
	}
	cmd := exec.CommandContext(ctx, binary, "-test.list", cmp.Or(o.run, "."))
	cmd.Dir = p.Dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the tests of %s: %w: %s", p.name(), err, out)
	}
	names, err := selectTests(string(out), o.skip)
	if err != nil {
		return nil, err
	}
	return deal(p, binary, names), nil
}

// selectTests returns the names that a test binary lists, but benchmarks and those that match skip.
func selectTests(listed, skip string) (names []string, err error) {
	left, err := regexp.Compile(skip)
	if err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(listed, "\n") {
		if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") && !strings.HasPrefix(name, "Example") {
			continue // what TestMain prints
		}
		if skip == "" || !left.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func deal(p *pkg, binary string, names []string) (units []*unit) {
	for part := range min(p.parts, len(names)) {
		u := &unit{pkg: p, binary: binary, part: part + 1}
		for i := part; i < len(names); i += p.parts {
			u.tests = append(u.tests, names[i])
		}
		units = append(units, u)
	}
	return units
}
