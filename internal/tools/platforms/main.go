// SPDX-License-Identifier: Apache-2.0

// Command platforms checks the types of packages, and of what they import of their module, for other platforms, in seconds and without compiling them.
//
//	platforms -C FOLDER -platforms "GOOS/GOARCH ..." PACKAGE...
//
// It finds what does not compile there, but for assembly, what only the linker sees, and functions of other modules.
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	dir := flag.String("C", ".", "`folder` of the module")
	list := flag.String("platforms", "", "GOOS/GOARCH, separated by spaces")
	flag.Parse()
	if err := check(*dir, strings.Fields(*list), flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "platforms: %v\n", err)
		os.Exit(1)
	}
}

// check returns the errors of packages, for each platform.
func check(dir string, platforms, patterns []string) error {
	if len(patterns) == 0 {
		return errors.New("no package is given")
	}
	own, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	own += string(filepath.Separator)
	var errs []error
	for _, platform := range platforms {
		system, architecture, ok := strings.Cut(platform, "/")
		if !ok {
			return fmt.Errorf("-platforms: %q is not GOOS/GOARCH", platform)
		}
		loaded, err := packages.Load(&packages.Config{
			Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedCompiledGoFiles | packages.NeedTypes | packages.NeedTypesSizes,
			Dir:  dir,
			// What other modules declare is enough: the bodies of their functions are left out, and so are the errors that this causes.
			ParseFile: func(files *token.FileSet, path string, source []byte) (*ast.File, error) {
				file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
				if file != nil && !strings.HasPrefix(path, own) {
					for _, d := range file.Decls {
						if f, ok := d.(*ast.FuncDecl); ok {
							f.Body = &ast.BlockStmt{}
						}
					}
				}
				return file, err
			},
			Env: append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+architecture),
		}, patterns...)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		checked := 0
		for p := range packages.Postorder(loaded) {
			if !slices.ContainsFunc(p.CompiledGoFiles, func(path string) bool { return strings.HasPrefix(path, own) }) {
				continue
			}
			checked++
			for _, e := range p.Errors {
				errs = append(errs, fmt.Errorf("%s: %w", platform, e))
			}
		}
		fmt.Printf("platforms: %s: checked %d packages\n", platform, checked)
	}
	return errors.Join(errs...)
}
