// SPDX-License-Identifier: Apache-2.0

// Package collector runs the built distribution as the benchmark's subject and watches it from outside.
package collector
