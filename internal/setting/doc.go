// SPDX-License-Identifier: Apache-2.0

// Package setting checks values of the configuration. Errors begin with the path of the key, such as observe::on_cpu::period, and say what is
// wrong with the value and what is allowed.
package setting
