// SPDX-License-Identifier: Apache-2.0

// Package monitor has the monitors of policies: each is one value per second of a process, of its requests, or of the host. [All] is the
// one list of them. Validation of the configuration, evaluation of rules, exported metrics and documentation read it.
package monitor

//go:generate go run ./generate
