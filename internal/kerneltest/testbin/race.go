// SPDX-License-Identifier: Apache-2.0

//go:build race

package testbin

// UnderRace says that the race detector is on: making unwind tables takes ten times as long then, and stacks that are
// taken meanwhile end early, as they say.
const UnderRace = true
