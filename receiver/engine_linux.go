// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package receiver

import (
	"context"

	"go.uber.org/zap"

	"github.com/otelcol-ebpf/ebpfreceiver/internal/engine"
)

func startEngine(ctx context.Context, config engine.Config, hooks engine.Hooks, logger *zap.Logger) (runner, error) {
	e, err := engine.Start(ctx, config, hooks, logger)
	if err != nil {
		return nil, err // not e: a nil *Engine in the interface is not nil
	}
	return e, nil
}
