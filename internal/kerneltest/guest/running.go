// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"os"
	"testing"
)

// Env names the environment variable that is set in the guest only.
const Env = "EBPFRECEIVER_KERNELTEST"

// Running reports whether this is the guest: its CPUs are emulated, which makes them slow, and little runs but the tests.
func Running() bool { return os.Getenv(Env) != "" }

// TakesLong skips a test in guests that run tests in short, as CI's do: this machine's kernel runs it in any case, and
// `make test-kernels-long` in guests.
func TakesLong(t testing.TB) {
	t.Helper()
	if Running() && testing.Short() {
		t.Skip("takes long on emulated CPUs: make test-kernels-long runs it")
	}
}

// SameOnEveryKernel skips a test in guests: no kernel changes what it shows, and this machine's runs it.
func SameOnEveryKernel(t testing.TB) {
	t.Helper()
	if Running() {
		t.Skip("is the same on every kernel")
	}
}
