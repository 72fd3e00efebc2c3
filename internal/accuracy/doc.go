// SPDX-License-Identifier: Apache-2.0

// Command accuracy runs programs of Debian packages under load, lets the built distribution profile them and judges the
// stacks: how many reach the entry of their thread, how many frames have no name. It fails when a target is missed.
//
// docs/reports/accuracy.md says what counts and how to read the report.
package main
