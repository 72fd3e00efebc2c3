// SPDX-License-Identifier: Apache-2.0

//go:build !race

package engine

// underRace says that the race detector is on.
const underRace = false
