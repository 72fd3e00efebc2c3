// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"os"
	"testing"
)

// Env names the environment variable that is set in the guest only.
const Env = "EBPFRECEIVER_KERNELTEST"

// Running says that this is the guest: its CPUs are emulated, which makes them slow, and there is little beside the tests.
func Running() bool { return os.Getenv(Env) != "" }

// TakesLong skips a test in guests that run tests in short: those between the oldest and the newest kernel, for what does
// not need each of them. `make test-kernels-long` runs it there, too.
func TakesLong(t testing.TB) {
	t.Helper()
	if Running() && testing.Short() {
		t.Skip("takes long on emulated CPUs: the oldest and the newest kernel run it")
	}
}

// SameOnEveryKernel skips a test in guests: no kernel changes what it shows, and this machine's runs it.
func SameOnEveryKernel(t testing.TB) {
	t.Helper()
	if Running() {
		t.Skip("is the same on every kernel")
	}
}
