// SPDX-License-Identifier: Apache-2.0

// Package thread runs functions that change the operating system thread that they run on.
package thread
