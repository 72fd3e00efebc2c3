// SPDX-License-Identifier: Apache-2.0

// Package task is what runs for a while because somebody asked for it: what, whom, how
// long, why and by whom. It keeps who waits, who runs and who ran within bounds, and
// knows nothing of how an observation is made: it asks a [Starter].
package task
