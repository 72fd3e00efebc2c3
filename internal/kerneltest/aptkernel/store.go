// SPDX-License-Identifier: Apache-2.0

package aptkernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// indexAge is how long the mirror's indexes are taken for fresh.
const indexAge = 12 * time.Hour

// Image is a kernel that is unpacked and can be booted.
type Image struct {
	Kernel  Kernel
	Package string // name of the package, with the point release
	Path    string // of the compressed kernel
	Modules string // folder with a folder of the kernel's release, in which are modules, numbered in the order of loading
}

// Store keeps unpacked kernels and apt's private state below one directory.
type Store struct {
	Dir  string                           // absolute
	Arch string                           // Debian's name of the architecture
	Log  func(format string, args ...any) // what is being done, for a person who waits
}

// Fetch returns the newest image of a kernel, from the store or else from the mirror.
// Without a mirror the newest one in the store is used.
func (s *Store) Fetch(ctx context.Context, k Kernel) (Image, error) {
	names, err := s.packages(ctx)
	if err != nil {
		if img, ok := s.newestStored(k); ok {
			s.Log("kernel %s: %v: using %s from the store", k.Name, err, img.Package)
			return img, nil
		}
		return Image{}, fmt.Errorf("looking for kernel %s: %w", k.Name, err)
	}
	candidates := k.Candidates(names)
	if len(candidates) == 0 {
		return Image{}, fmt.Errorf("looking for kernel %s: no package on the mirror is called %s", k.Name, k.Pattern)
	}
	var failures []error
	for _, name := range candidates { // the newest may be listed and not yet, or no longer, be served
		img, err := s.image(ctx, k, name)
		if err == nil {
			return img, nil
		}
		failures = append(failures, err)
	}
	return Image{}, fmt.Errorf("fetching kernel %s: %w", k.Name, errors.Join(failures...))
}

// image returns the unpacked package, downloading it if need be.
func (s *Store) image(ctx context.Context, k Kernel, name string) (Image, error) {
	if img, err := s.stored(k, name); err == nil {
		return img, nil
	}
	s.Log("kernel %s: downloading %s", k.Name, name)
	work, err := os.MkdirTemp(s.Dir, "unpack-")
	if err != nil {
		return Image{}, fmt.Errorf("making a directory for %s: %w", name, err)
	}
	defer os.RemoveAll(work)
	if err := s.unpack(ctx, work, packages(name)...); err != nil {
		return Image{}, err
	}
	if err := s.keep(filepath.Join(work, "root"), name); err != nil {
		return Image{}, fmt.Errorf("storing the kernel of %s: %w", name, err)
	}
	return s.stored(k, name)
}

// Program returns the path of a program of a package, which one of the patterns leads to in it, from the store or else from the mirror.
func (s *Store) Program(ctx context.Context, name string, patterns ...string) (string, error) {
	target := filepath.Join(s.Dir, name)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	if err := s.refresh(ctx); err != nil {
		return "", fmt.Errorf("looking for %s: %w", name, err)
	}
	s.Log("downloading %s", name)
	root, err := os.MkdirTemp(s.Dir, "unpack-")
	if err != nil {
		return "", fmt.Errorf("making a directory for %s: %w", name, err)
	}
	defer os.RemoveAll(root)
	if err := s.unpack(ctx, root, name); err != nil {
		return "", err
	}
	path, err := onlyOne(filepath.Join(root, "root"), patterns, "files")
	if err != nil {
		return "", err
	}
	return target, os.Rename(path, target)
}

// unpack downloads packages and unpacks them in the folder root below work.
func (s *Store) unpack(ctx context.Context, work string, names ...string) error {
	if err := s.run(ctx, work, "apt-get", append([]string{"download", "-q"}, names...)...); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(debs) != len(names) {
		return fmt.Errorf("downloading %s: %d packages came instead of %d", names[0], len(debs), len(names))
	}
	for _, deb := range debs {
		if err := s.run(ctx, work, "dpkg", "-x", deb, filepath.Join(work, "root")); err != nil {
			return err
		}
	}
	return nil
}

// imagePatterns are where packages hold the kernel: up to Debian 13, and from then on.
var imagePatterns = []string{"boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz"}

// keep moves the kernel of unpacked packages and the modules that tests need into the store. The kernel comes last: what
// the store has of a kernel without it does not count.
func (s *Store) keep(root, name string) error {
	image, err := onlyOne(root, imagePatterns, "files")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(s.folder(name)); err != nil {
		return err
	}
	if err := keepModules(root, s.modulesPath(name)); err != nil {
		return err
	}
	return os.Rename(image, s.imagePath(name))
}

// onlyOne returns what one of the patterns leads to below root; what says what that are, of which there must be one.
func onlyOne(root string, patterns []string, what string) (string, error) {
	var found []string
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return "", err
		}
		found = append(found, paths...)
	}
	if len(found) != 1 {
		return "", fmt.Errorf("looking for %s: %d %s instead of one", strings.Join(patterns, " or "), len(found), what)
	}
	return found[0], nil
}

func (s *Store) folder(name string) string    { return filepath.Join(s.Dir, name) }
func (s *Store) imagePath(name string) string { return filepath.Join(s.folder(name), "vmlinuz") }

func (s *Store) modulesPath(name string) string { return filepath.Join(s.folder(name), "modules") }

// stored returns the image of a package that was unpacked before.
func (s *Store) stored(k Kernel, name string) (Image, error) {
	for _, path := range []string{s.imagePath(name), s.modulesPath(name)} {
		if _, err := os.Stat(path); err != nil {
			return Image{}, fmt.Errorf("looking for a stored kernel: %w", err)
		}
	}
	return Image{Kernel: k, Package: name, Path: s.imagePath(name), Modules: s.modulesPath(name)}, nil
}

func (s *Store) newestStored(k Kernel) (Image, bool) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return Image{}, false
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for _, name := range k.Candidates(names) {
		if img, err := s.stored(k, name); err == nil {
			return img, true
		}
	}
	return Image{}, false
}

// run runs a command of apt or dpkg with the private state; the error carries what it printed.
func (s *Store) run(ctx context.Context, dir, name string, args ...string) error {
	_, err := s.output(ctx, dir, name, args...)
	return err
}

func (s *Store) output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "APT_CONFIG="+s.configFile(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running %s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
