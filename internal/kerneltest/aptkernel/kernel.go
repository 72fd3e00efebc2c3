// SPDX-License-Identifier: Apache-2.0

// Package aptkernel finds and unpacks Debian's kernels for virtual machines, without installing anything.
//
// Packages come from the mirror that this machine's apt is set up for, also of releases other than the machine's own,
// through a private state of apt (its own list of sources, indexes and cache), verified with the machine's keyrings.
package aptkernel // import "github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/aptkernel"

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kernel is a line of kernels of which the newest point release is wanted.
type Kernel struct {
	Name    string // "5.10"
	Pattern string // RE2 that matches the names of its packages as a whole
	// Instead, where the first pattern matches nothing: the line that has replaced it in Debian.
	Instead string
}

// Kernels are the lines that are tested, oldest first, for amd64. Names of packages carry the point release; old releases are
// deleted from the mirror, so the newest is looked up by name. The unsigned and debug packages are others.
var Kernels = []Kernel{
	{Name: "5.10", Pattern: `linux-image-5\.10\.0-\d+-cloud-amd64`},
	{Name: "6.1", Pattern: `linux-image-6\.1\.0-\d+-cloud-amd64`},
	{Name: "6.12", Pattern: `linux-image-6\.12\.\d+\+deb1[23]-cloud-amd64`},
	// From forky on the image is in linux-binary; linux-image only depends on it. Sid moves on to newer kernels.
	{Name: "7.2", Pattern: `linux-binary-7\.2\.\d+\+deb\d+-cloud-amd64`, Instead: `linux-binary-[789]\.\d+\.\d+\+deb\d+-cloud-amd64`},
}

// On returns the kernel's line for another architecture, by Debian's name of it.
func (k Kernel) On(arch string) Kernel {
	k.Pattern, k.Instead = strings.ReplaceAll(k.Pattern, "amd64", arch), strings.ReplaceAll(k.Instead, "amd64", arch)
	return k
}

// packages are those that an image and its modules come in. From forky on the modules have one of their own.
func packages(name string) []string {
	if release, ok := strings.CutPrefix(name, "linux-binary-"); ok {
		return []string{name, "linux-modules-" + release}
	}
	return []string{name}
}

// suites are where the kernels above live; security suites are those of the security archive.
var (
	archiveSuites  = []string{"bullseye", "bookworm", "trixie", "sid"}
	securitySuites = []string{"bullseye-security", "bookworm-security"}
)

// Candidates returns those of the packages that belong to the kernel, the newest release first.
func (k Kernel) Candidates(packages []string) []string {
	for _, pattern := range []string{k.Pattern, k.Instead} {
		if pattern == "" {
			continue
		}
		re := regexp.MustCompile("^(?:" + pattern + ")$")
		var found []string
		for _, p := range packages {
			if re.MatchString(p) && !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
		if len(found) > 0 {
			slices.SortFunc(found, func(a, b string) int { return compareNumbers(b, a) })
			return found
		}
	}
	return nil
}

var digits = regexp.MustCompile(`\d+`)

// compareNumbers orders names by the numbers in them, the first number first.
func compareNumbers(a, b string) int {
	na, nb := digits.FindAllString(a, -1), digits.FindAllString(b, -1)
	return cmp.Or(slices.CompareFunc(na, nb, func(x, y string) int {
		nx, errX := strconv.ParseUint(x, 10, 64)
		ny, errY := strconv.ParseUint(y, 10, 64)
		if errX != nil || errY != nil { // more digits than 64 bits hold
			return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y))
		}
		return cmp.Compare(nx, ny)
	}), strings.Compare(a, b))
}
