// SPDX-License-Identifier: Apache-2.0

package engine

import "time"

// fillWindow is how long a high value is reported at least, and half of how long at
// most: long enough to be seen where metrics are collected once a minute.
const fillWindow = time.Minute

// highest is the highest value of the last one to two windows. It does not depend
// on who reads it, and how often.
type highest struct {
	before, now float64
	turned      time.Time
}

func (h *highest) add(at time.Time, value float64) {
	if at.Sub(h.turned) >= fillWindow {
		h.before, h.now, h.turned = h.now, 0, at
	}
	h.now = max(h.now, value)
}

func (h *highest) value() float64 { return max(h.before, h.now) }
