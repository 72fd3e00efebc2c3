// SPDX-License-Identifier: Apache-2.0

package route

// Table keeps the routes of one service, up to a bound: it gives equal routes the same string, so that finding a known one allocates
// nothing. It is used by one goroutine at a time.
type Table struct {
	limit    int
	routes   map[string]string
	template []byte
	// Refused counts paths that found no place.
	Refused uint64
}

// NewTable makes a table of up to limit routes, Other not counted.
func NewTable(limit int) *Table { return &Table{limit: limit, routes: map[string]string{}} }

// Len is the number of routes.
func (t *Table) Len() int { return len(t.routes) }

// Of is the route of a path, which is without its query; Other if there are as many as the table may have.
func (t *Table) Of(path []byte) string {
	t.template = Template(t.template[:0], path)
	if known, ok := t.routes[string(t.template)]; ok {
		return known
	}
	if len(t.routes) >= t.limit {
		t.Refused++
		return Other
	}
	added := string(t.template)
	t.routes[added] = added
	return added
}
