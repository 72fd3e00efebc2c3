// SPDX-License-Identifier: Apache-2.0

package warn

import "sync"

// maxRemembered bounds the errors that a Memory keeps; further ones are logged again.
const maxRemembered = 1024

// Memory keeps the errors that were logged, so that a component which is replaced, as when a Collector reloads its configuration, does not
// log them a second time. A nil Memory keeps nothing. It is safe for concurrent use.
type Memory struct {
	before map[string]bool // logged by previous components; it is not modified

	mu     sync.Mutex
	logged map[string]bool
}

// Next returns the Memory of the next component: it has all that was logged so far.
func (m *Memory) Next() *Memory {
	next := &Memory{before: map[string]bool{}, logged: map[string]bool{}}
	if m == nil {
		return next
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, from := range []map[string]bool{m.logged, m.before} {
		for text := range from {
			if len(next.before) < maxRemembered {
				next.before[text] = true
			}
		}
	}
	return next
}

// knows reports whether a previous component logged a warning.
func (m *Memory) knows(text string) bool { return m != nil && m.before[text] }

func (m *Memory) note(text string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.logged) < maxRemembered {
		m.logged[text] = true
	}
}
