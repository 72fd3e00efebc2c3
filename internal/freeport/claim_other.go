// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package freeport

// firstEphemeral returns the lowest of the ports that IANA leaves to clients (RFC 6335, section 6).
func firstEphemeral() int { return 49152 }

// claims claims nothing: tests run on Linux.
type claims struct{}

func (*claims) claim(int) (bool, error) { return true, nil }
