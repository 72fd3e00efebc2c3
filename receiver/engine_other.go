// SPDX-License-Identifier: Apache-2.0

//go:build !linux || (!amd64 && !arm64)

package receiver

import (
	"context"
	"fmt"
	"runtime"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

// startEngine returns an error on platforms without an engine, so that a distribution
// with the receiver still builds and starts everywhere.
func startEngine(context.Context, engine.Config, engine.Hooks, *zap.Logger) (runner, error) {
	return nil, fmt.Errorf("the receiver runs on linux/amd64 and linux/arm64, this is %s/%s", runtime.GOOS, runtime.GOARCH)
}
