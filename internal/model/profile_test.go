// SPDX-License-Identifier: Apache-2.0

package model

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettled(t *testing.T) {
	plain := &Frame{Address: 1}
	require.Same(t, plain, plain.Settled())
	early := &Frame{Address: 2, Late: new(atomic.Pointer[Frame])}
	require.Same(t, early, early.Settled())
	settled := &Frame{Address: 2, Lines: []Line{{Line: 3}}}
	early.Late.Store(settled)
	require.Same(t, settled, early.Settled())
}
