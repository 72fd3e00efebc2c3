// SPDX-License-Identifier: Apache-2.0

package guest

import "os"

// Env names the environment variable that is set in the guest only.
const Env = "EBPFRECEIVER_KERNELTEST"

// Running says that this is the guest: its CPUs are emulated, which makes them slow, and there is little beside the tests.
func Running() bool { return os.Getenv(Env) != "" }
