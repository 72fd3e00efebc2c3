// SPDX-License-Identifier: Apache-2.0

package conntrack

import "time"

// key is a flow in a network namespace.
type key struct {
	namespace uint64
	flow      Flow
}

// cache keeps answers for some time, in two halves. The older one is dropped as a whole when the younger is full or half of the time has
// passed.
type cache struct {
	half       int           // entries
	halfLife   time.Duration // an answer is used until it is one to three times as old
	young, old map[key]Flow
	turned     time.Time
}

func newCache(entries int, life time.Duration) *cache {
	return &cache{half: max(1, entries/2), halfLife: life / 2, young: map[key]Flow{}, old: map[key]Flow{}}
}

// turn drops the older half when it is due.
func (c *cache) turn(now time.Time) {
	switch age := now.Sub(c.turned); {
	case age >= 2*c.halfLife:
		c.old = map[key]Flow{}
	case age >= c.halfLife || len(c.young) >= c.half:
		c.old = c.young
	default:
		return
	}
	c.young, c.turned = map[key]Flow{}, now
}

func (c *cache) get(k key) (Flow, bool) {
	if flow, ok := c.young[k]; ok {
		return flow, true
	}
	flow, ok := c.old[k]
	return flow, ok
}

func (c *cache) put(k key, flow Flow, now time.Time) {
	c.turn(now)
	c.young[k] = flow
}
