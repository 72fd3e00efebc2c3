// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

var errUntold = errors.New("the kernel does not tell it")

// MapBytes sums the memory of maps by the kernel's own account, in bytes, without those that others have, by name.
func MapBytes(maps, others map[string]*ebpf.Map) (sum uint64, err error) {
	for name, m := range maps {
		if _, ok := others[name]; ok {
			continue
		}
		info, err := m.Info()
		if err != nil {
			return 0, fmt.Errorf("the memory of the map %s: %w", name, err)
		}
		bytes, ok := info.Memlock()
		if !ok {
			return 0, fmt.Errorf("the memory of the map %s: %w (memlock of /proc/self/fdinfo)", name, errUntold)
		}
		sum += bytes
	}
	return sum, nil
}
