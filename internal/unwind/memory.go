// SPDX-License-Identifier: Apache-2.0

package unwind

import "unsafe"

const (
	rowBytes       = 4
	pageEntryBytes = int64(unsafe.Sizeof(Page{}))
	functionBytes  = int64(unsafe.Sizeof(function{}))
	minFunctions   = 256 // that memory is first allocated for
	// cieMemory is the assumed memory of one parsed CIE: itself and its part of a map.
	cieMemory = int64(unsafe.Sizeof(cie{})) + 64
)

// memory counts what is allocated while a table is built. Without one, nothing is bounded.
type memory struct {
	reserve func(bytes int64) error
	held    int64
	err     error // the first refusal; the build is stopped then
}

// hold counts bytes before they are allocated; false if they are refused.
func (m *memory) hold(bytes int64) bool {
	if m == nil {
		return true
	}
	if m.err == nil {
		m.err = m.reserve(bytes)
	}
	if m.err == nil {
		m.held += bytes
	}
	return m.err == nil
}

// refused is why the build is stopped.
func (m *memory) refused() error {
	if m == nil {
		return nil
	}
	return m.err
}

// keep releases all but the memory of a table.
func (m *memory) keep(table *Table) {
	var bytes int64
	if table != nil {
		bytes = min(table.Bytes(), m.held)
	}
	m.drop(m.held - bytes)
}

// drop counts bytes that were freed.
func (m *memory) drop(bytes int64) {
	if m != nil && bytes > 0 {
		m.held -= bytes
		m.reserve(-bytes) //nolint:errcheck // freeing is never refused
	}
}
