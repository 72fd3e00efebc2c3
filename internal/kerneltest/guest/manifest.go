// SPDX-License-Identifier: Apache-2.0

// Package guest is the interface between the runner of the kernel matrix and the init in the virtual machine: the manifest that configures
// init, and the lines on the console by which init reports the results.
package guest // import "github.com/otelcol-ebpf/ebpfreceiver/internal/kerneltest/guest"

import "time"

// Paths in the guest.
const (
	ManifestPath = "/kerneltest.json"
	TestbinPath  = "/testbin" // prebuilt helper programs; see package testbin
	ModulesPath  = "/modules" // a folder for each kernel's release, with modules in the order of loading
)

// ArgsEnv names the environment variable by which one boot has more arguments for its test binaries, parted by blanks. It is
// given on the kernel's command line, of which the kernel hands what it does not know to init.
const ArgsEnv = "KERNELTEST_ARGS"

// Lines that init prints, each at the start of a line of the console.
const (
	prefix     = "KERNELTEST "
	markKernel = prefix + "KERNEL " // then the release, as of uname -r
	markBegin  = prefix + "BEGIN "  // then the package
	markEnd    = prefix + "END "    // then the package and exit=CODE
	markResult = prefix + "RESULT " // then ok=N failed=N, packages
)

// Manifest configures init.
type Manifest struct {
	Packages []Package     `json:"packages"`
	Args     []string      `json:"args"`    // of each test binary
	Env      []string      `json:"env"`     // of each test binary, NAME=VALUE
	Timeout  time.Duration `json:"timeout"` // of each test binary
}

// Package is one test binary.
type Package struct {
	Name   string `json:"name"`   // folder in the module, such as internal/kernel
	Dir    string `json:"dir"`    // where it is run: the folder's copy in the guest, testdata in it
	Binary string `json:"binary"` // path in the guest
	Run    string `json:"run"`    // its -test.run; empty: all tests
}
