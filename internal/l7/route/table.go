// SPDX-License-Identifier: Apache-2.0

package route

// Table keeps the routes of one service, up to a bound: it gives equal routes the same string, so that finding a known one allocates
// nothing. It is used by one goroutine at a time.
type Table struct {
	limit    int
	routes   map[string]place
	doubtful int // of the routes
	template []byte
}

// place is what is kept of a route.
type place struct {
	route string // the key, which finding it does not copy
	// doubtful is set until something was found there.
	doubtful bool
}

// NewTable makes a table of up to limit routes, Other not counted.
func NewTable(limit int) *Table { return &Table{limit: limit, routes: map[string]place{}} }

// Len is the number of routes.
func (t *Table) Len() int { return len(t.routes) }

// Of is the route of a path, which is without its query; Other if there are as many as the table may have. Of paths at which nothing was
// found there may be half as many: who tries out what a server has leaves room for what it has.
func (t *Table) Of(path []byte, found bool) string {
	t.template = Template(t.template[:0], path)
	known, ok := t.routes[string(t.template)]
	if ok && (!found || !known.doubtful) {
		return known.route
	}
	switch {
	case ok:
		t.doubtful--
	case len(t.routes) >= t.limit, !found && t.doubtful >= t.limit/2:
		return Other
	default:
		known.route = string(t.template)
	}
	if !found {
		t.doubtful++
	}
	t.routes[known.route] = place{known.route, !found}
	return known.route
}

// Keep forgets the routes that are not wanted any more: their places are free again.
func (t *Table) Keep(wanted func(route string) bool) {
	for route, known := range t.routes {
		if wanted(route) {
			continue
		}
		if known.doubtful {
			t.doubtful--
		}
		delete(t.routes, route)
	}
}
