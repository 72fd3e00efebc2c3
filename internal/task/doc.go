// SPDX-License-Identifier: Apache-2.0

// Package task runs observations for a limited time on request. A request says what to observe, of
// which processes, for how long, why, and who requested it. The package bounds the tasks that wait,
// run and are remembered. It does not know how an observation is made: it calls a [Starter].
package task
