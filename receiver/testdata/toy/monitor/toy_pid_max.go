// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/model"
)

// ToyPIDMax is the number at which pids of the host wrap around.
var ToyPIDMax = &Descriptor{
	Name: "toy_pid_max", Unit: "pids",
	Doc: "the number at which pids of the host wrap around",
	Metric: model.Descriptor{
		Name: "toy.pid.max", Unit: "{pid}", Instrument: model.Gauge, Description: "Number at which pids of the host wrap around.",
	},
	Scale: 1, Integer: true,
	Host: func() HostReader { return readPIDMax },
}

func readPIDMax(roots Roots, _ time.Duration) (value float64, ok bool, err error) {
	text, err := os.ReadFile(filepath.Join(roots.Proc, "sys/kernel/pid_max"))
	if err != nil {
		return 0, false, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return 0, false, fmt.Errorf("reading the largest pid: %w", err)
	}
	return float64(n), true, nil
}
