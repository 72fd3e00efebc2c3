// SPDX-License-Identifier: Apache-2.0

package aptkernel

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ulikunitz/xz"
)

// wantedModules are those of the kernel's modules that tests need: Debian's kernels have the network's more special
// parts in modules.
var wantedModules = []string{
	"veth", "tun", // interfaces that join network namespaces
	"nf_conntrack_netlink", "nf_tables", "nft_chain_nat", "nft_nat", // address translation, and asking for it
}

// modulePatterns are where packages hold the folder of modules, which has the name of the kernel's release.
var modulePatterns = []string{"lib/modules/*/kernel", "usr/lib/modules/*/kernel"}

// maxModule bounds a module, unpacked.
const maxModule = 16 << 20

// keepModules writes the wanted modules of unpacked packages, and those that they depend on, to target/RELEASE, under
// names that sort in the order in which they are to be loaded.
func keepModules(root, target string) error {
	folder, err := onlyOne(root, modulePatterns, "folders")
	if err != nil {
		return err
	}
	all, err := moduleFiles(folder)
	if err != nil {
		return err
	}
	texts := map[string][]byte{}
	names, err := loadOrder(wantedModules, func(name string) ([]string, error) {
		path, ok := all[name]
		if !ok {
			return nil, fmt.Errorf("looking for the module %s: it is not in the package", name)
		}
		if texts[name], err = readModule(path); err != nil {
			return nil, err
		}
		return dependencies(texts[name])
	})
	if err != nil {
		return err
	}
	dir := filepath.Join(target, filepath.Base(filepath.Dir(folder)))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, name := range names {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d-%s.ko", i, name)), texts[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// moduleFiles returns the files of all modules by name.
func moduleFiles(folder string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if name, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok {
			files[strings.ReplaceAll(name, "-", "_")] = path
		}
		return err
	})
	return files, err
}

// loadOrder returns modules and what they depend on, each after its dependencies.
func loadOrder(wanted []string, dependencies func(string) ([]string, error)) ([]string, error) {
	var order []string
	var visit func(name string, from []string) error
	visit = func(name string, from []string) error {
		if slices.Contains(order, name) {
			return nil
		}
		if slices.Contains(from, name) {
			return fmt.Errorf("ordering modules: %s depends on itself by %s", name, strings.Join(from, ", "))
		}
		needed, err := dependencies(name)
		if err != nil {
			return err
		}
		for _, n := range needed {
			if err := visit(n, append(from, name)); err != nil {
				return err
			}
		}
		order = append(order, name)
		return nil
	}
	for _, name := range wanted {
		if err := visit(name, nil); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// readModule reads a module, unpacked if need be.
func readModule(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a module: %w", err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".xz") {
		if in, err = xz.NewReader(f); err != nil {
			return nil, fmt.Errorf("unpacking the module %s: %w", path, err)
		}
	}
	text, err := io.ReadAll(io.LimitReader(in, maxModule+1))
	if err == nil && len(text) > maxModule {
		err = fmt.Errorf("it is larger than %d bytes", maxModule)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the module %s: %w", path, err)
	}
	return text, nil
}

// dependencies returns the modules that a module says it needs.
func dependencies(module []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, fmt.Errorf("reading a module: %w", err)
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("reading a module: it has no section .modinfo")
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("reading a module's .modinfo: %w", err)
	}
	return parseDepends(string(info)), nil
}

// parseDepends reads the entry depends of .modinfo, a list of strings that end in NUL.
func parseDepends(info string) []string {
	for _, entry := range strings.Split(info, "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ",")
		}
	}
	return nil
}
