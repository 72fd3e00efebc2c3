// SPDX-License-Identifier: Apache-2.0

//go:build !race

package testbin

// UnderRace: the race detector is on. Making unwind tables takes ten times as long then, and stacks that are taken meanwhile end early,
// with their reason.
const UnderRace = false
